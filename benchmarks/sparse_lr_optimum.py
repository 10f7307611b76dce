"""scikit-learn's optima that `src/engine/tests/suite/linear/lbfgs.rs` holds: `python -m benchmarks.sparse_lr_optimum`.

400 rows of 60 features made by formulas (the Rust twin is `formulas` in `src/testing/linear.rs`), with two classes and
three, L2 and L1 at C = 1 and C = 0.05: the objective in our scale, `mean loss + l2/2 Σ c² + l1 Σ |c|` with
`l = 1 / (C rows)`, and the number of coefficients.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

ROWS, FEATURES = 400, 60


def formulas(classes: int) -> tuple[scipy.sparse.csr_matrix, NDArray[np.int64]]:
    """The rows (a feature twice in one is summed) and their classes."""
    rows, numbers, values, codes = [], [], [], []
    for i in range(ROWS):
        score = ((i * 53) % 19 - 9) / 9
        for j in range(3 + i % 5):
            feature, value = (i * i + 7 * j * (j + i)) % FEATURES, ((i * 13 + j * 29) % 11 - 5) / 4
            rows.append(i)
            numbers.append(feature)
            values.append(value)
            score += value * ((feature * 31) % 17 - 8) / 8
        codes.append(int(score > 0) if classes == 2 else int(score >= -1) + int(score >= 1))
    return scipy.sparse.csr_matrix((values, (rows, numbers)), shape=(ROWS, FEATURES)), np.array(codes)


def objective(
    x: scipy.sparse.csr_matrix, codes: NDArray[np.int64], model: LogisticRegression, l1: float, l2: float
) -> float:
    """The objective at a model's coefficients."""
    scores = x @ model.coef_.T + model.intercept_
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    top = scores.max(axis=1)
    losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(len(codes)), codes]
    return float(losses.mean() + l2 / 2 * (model.coef_**2).sum() + l1 * np.abs(model.coef_).sum())


def main() -> None:
    """Prints the optima."""
    warnings.simplefilter("ignore")
    for classes in (2, 3):
        x, codes = formulas(classes)
        for c in (1.0, 0.05):
            strength = 1 / (c * ROWS)
            ridge = LogisticRegression(C=c, solver="newton-cg" if classes > 2 else "lbfgs", tol=1e-12, max_iter=100_000)
            lasso = LogisticRegression(C=c, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=200_000)
            print(f"{classes} classes, l2, C = {c}: {objective(x, codes, ridge.fit(x, codes), 0.0, strength)!r}")
            found = objective(x, codes, lasso.fit(x, codes), strength, 0.0)
            print(f"{classes} classes, l1, C = {c}: {found!r}, {np.count_nonzero(lasso.coef_)} coefficients")


if __name__ == "__main__":
    main()
