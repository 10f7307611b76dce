"""What the peers' own tests prove, as properties of this package: each test's name says which one.

LightGBM's engine tests, XGBoost's tests of updaters, constraints and regularisation, scikit-learn's
tests of histogram boosting, forests, target encoding and logistic regression, and NumPy's tests of
histograms were read for what they prove; tables, code and words here are our own.
"""
