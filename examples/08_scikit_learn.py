"""scikit-learn's pipelines, searches and calibration around the learners, from Polars frames."""

import numpy as np
import polars as pl
import polars_taiga as tg
from polars_taiga.sklearn import ForestClassifier, GbdtClassifier, SparseLogisticRegression, TargetEncoder
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

rng = np.random.default_rng(0)
n = 8_000
shop = rng.integers(0, 1_500, n)
df = pl.DataFrame({"price": rng.random(n), "area": rng.normal(size=n), "shop": shop}).with_columns(
    shop=pl.format("shop {}", "shop"),
    city=pl.Series(rng.choice(["Turku", "Oulu", "Inari"], n)),
    area=pl.when(pl.int_range(n) % 9 > 0).then("area"),
)
score = rng.normal(size=1_500)[shop] - 2 * df["price"].to_numpy() + df["area"].fill_null(0.0).to_numpy()
sold = np.where(score + rng.normal(size=n) > 0, "yes", "no")
train, new, y, y_new = train_test_split(df, sold, random_state=0)

# Text and missing values go in as they are. Held-out rows decide when to stop.
est = GbdtClassifier(rounds=500, learning_rate=0.2, early_stopping=10).fit(train, y, eval_set=(new, y_new))
print(est.model_)
print(dict(zip(est.feature_names_in_, est.feature_importances_.round(2).tolist(), strict=True)))

# `model_` is the model of the expressions: it goes on into a lazy query.
mean = new.lazy().select(tg.predict(est.model_).mean()).collect().item()
print(f"mean probability {mean:.3f}, share of yes {np.mean(y_new == 'yes'):.3f}")

# A search over a whole pipeline: ordered target encoding of one column, the others as they are.
pipe = make_pipeline(
    ColumnTransformer([("shop", TargetEncoder(), ["shop"])], remainder="passthrough", verbose_feature_names_out=False),
    GbdtClassifier(rounds=50),
).set_output(transform="polars")
search = GridSearchCV(
    pipe,
    {"gbdtclassifier__depth": [3, 6], "columntransformer__shop__prior_weight": [1.0, 10.0]},
    scoring="neg_log_loss",
    cv=3,
).fit(train, y)
print(search.best_params_, f"log loss {log_loss(y_new, search.predict_proba(new)):.3f}")

# A forest's shares of votes as probabilities, calibrated.
forest = ForestClassifier(trees=50, min_data_in_leaf=5)
calibrated = CalibratedClassifierCV(forest, cv=3).fit(train, y)
raw = log_loss(y_new, forest.fit(train, y).predict_proba(new))
print(f"forest: log loss {raw:.3f}, calibrated {log_loss(y_new, calibrated.predict_proba(new)):.3f}")

# scipy's sparse matrices, as OneHotEncoder makes them, are fitted as they are.
linear = make_pipeline(OneHotEncoder(handle_unknown="ignore"), SparseLogisticRegression())
print(f"linear: accuracy {cross_val_score(linear, train[['shop', 'city']], y, cv=3).mean():.3f}")
