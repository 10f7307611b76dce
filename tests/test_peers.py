"""As accurate as the library whose policy it is, with the same settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

ROWS, TREES = 20_000, 60


@pytest.fixture(scope="module")
def table() -> tuple[pl.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """A frame with features f0 … f9, number `y` and label `flag`, and the same as arrays."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(ROWS, 10)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    z = np.nan_to_num(x)
    y = z[:, 0] + np.abs(z[:, 1]) * z[:, 2] + 2 * (z[:, 3] > 0.5) * z[:, 4] + rng.normal(size=ROWS) / 2
    df = pl.DataFrame({f"f{i}": x[:, i] for i in range(10)}).with_columns(y=pl.Series(y), flag=pl.Series(y > 0))
    return df, x, y, (y > 0).astype(int)


def peer_predictions(policy: str, x: np.ndarray, y: np.ndarray, classify: bool) -> np.ndarray:
    """What the library of that policy predicts for the second half, fitted on the first."""
    n = ROWS // 2
    if policy == "symmetric":
        catboost = pytest.importorskip("catboost")
        kind = catboost.CatBoostClassifier if classify else catboost.CatBoostRegressor
        model = kind(
            iterations=TREES, depth=6, learning_rate=0.1, l2_leaf_reg=1, border_count=254, verbose=0, thread_count=2,
            boosting_type="Plain", bootstrap_type="No", random_strength=0, leaf_estimation_iterations=1,
            allow_writing_files=False,
        )  # fmt: skip
    elif policy == "depthwise":
        xgboost = pytest.importorskip("xgboost")
        kind = xgboost.XGBClassifier if classify else xgboost.XGBRegressor
        model = kind(n_estimators=TREES, max_depth=6, learning_rate=0.1, reg_lambda=1, tree_method="hist", n_jobs=2)
    else:
        lightgbm = pytest.importorskip("lightgbm")
        kind = lightgbm.LGBMClassifier if classify else lightgbm.LGBMRegressor
        model = kind(
            n_estimators=TREES, num_leaves=31, learning_rate=0.1, reg_lambda=1, min_child_weight=1, min_child_samples=1,
            n_jobs=2, verbose=-1,
        )  # fmt: skip
    model.fit(x[:n], y[:n])
    return np.asarray(model.predict_proba(x[n:])[:, 1] if classify else model.predict(x[n:]))


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_no_worse_than_the_peer(table: Any, policy: Any, classify: bool) -> None:
    df, x, y, flag = table
    n = ROWS // 2
    features = [f"f{i}" for i in range(10)]
    model = df.head(n).taiga.fit_gbdt("flag" if classify else "y", features, rounds=TREES, policy=policy)
    ours = df.tail(n).select(tg.predict(model))["prediction"].to_numpy()
    peers = peer_predictions(policy, x, flag if classify else y, classify)
    if classify:
        truth = flag[n:]
        loss = [-np.mean(np.log(np.where(truth == 1, p, 1 - p))) for p in (ours, peers)]
    else:
        loss = [np.sqrt(np.mean((p - y[n:]) ** 2)) for p in (ours, peers)]
    assert loss[0] < loss[1] * 1.02, (loss, "benchmarks/ measure this closer, on real tables")
