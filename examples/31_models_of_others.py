"""Read models of LightGBM, XGBoost, scikit-learn and CatBoost, and predict with them inside a lazy query."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import polars_taiga as tg

try:
    import catboost
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingRegressor
except ImportError as error:
    sys.exit(print(f"not run: {error}"))

rng = np.random.default_rng(30)
names = ["age", "income"]
x = np.column_stack([rng.integers(18, 90, 2_000), np.exp(rng.normal(10, 0.5, 2_000))])
x[::11, 1] = np.nan
y = x[:, 0] / 10 + np.nan_to_num(x[:, 1]) / 20_000 + rng.normal(0, 1, 2_000)

light = lightgbm.train({"verbose": -1}, lightgbm.Dataset(x, y, feature_name=names), 50)
boosted = xgboost.train({}, xgboost.DMatrix(x, y, feature_names=names), 50)
hist = HistGradientBoostingRegressor(max_iter=50).fit(x, y)

models = {
    "light": tg.import_model(light),
    "xgb": tg.import_model(bytes(boosted.save_raw("ubj"))),  # or a file's path
    "hist": tg.import_model(hist, features=names),
}
rows = pl.LazyFrame(dict(zip(names, x.T, strict=True)))
scores = rows.select(tg.predict(model).alias(name) for name, model in models.items()).collect(engine="streaming")
print(scores.head(3))

# As the libraries themselves: LightGBM in every bit, XGBoost but for its sums of 32-bit numbers.
print("LightGBM equal:", bool((scores["light"].to_numpy() == light.predict(x)).all()))
off = np.abs(scores["xgb"].to_numpy() - boosted.predict(xgboost.DMatrix(x, feature_names=names))).max()
print("XGBoost off by less than 1e-5:", bool(off < 1e-5))

# And it can do what any model here can.
print(models["light"].explain({"age": 40, "income": 30_000.0}))
print(models["xgb"].metadata["imported_from"].split(".")[0])

# CatBoost's statistics of combinations of categories, from its file: no list of the categories is needed.
people = pl.DataFrame(
    {"age": x[:, 0], "job": rng.choice(["cook", "nurse", "smith"], 2_000), "city": rng.integers(0, 40, 2_000)}
)
pool = catboost.Pool(people.to_pandas(), y * (people["city"].to_numpy() % 3), cat_features=["job", "city"])
cat = catboost.CatBoostRegressor(iterations=50, verbose=False, allow_writing_files=False).fit(pool)
with TemporaryDirectory() as folder:
    cat.save_model(str(Path(folder) / "model.cbm"))
    read = tg.Model.load(Path(folder) / "model.cbm")
off = np.abs(read.predict(people).to_numpy() - cat.predict(pool)).max()
print("CatBoost off by less than 1e-9:", bool(off < 1e-9))
