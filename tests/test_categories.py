"""Categorical features in the trees: as they are, in every type, the same bytes, against the peers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.metrics import roc_auc_score

POLICIES = ["symmetric", "depthwise", "leafwise"]


def table(rows: int = 600, seed: int = 0) -> pl.DataFrame:
    """Two categorical columns, one with nulls, an integer one and a number."""
    random = np.random.default_rng(seed)
    city = random.integers(0, 25, rows)
    kind = random.integers(0, 4, rows)
    shop = random.integers(0, 9, rows)
    x = random.normal(size=rows)
    y = np.sin(city * 7.0) + 0.5 * ((city + kind) % 3) + (shop == 4) + 0.3 * x + 0.2 * random.normal(size=rows)
    return pl.DataFrame(
        {
            "city": [f"city {c}" if c else None for c in city],
            "kind": [["red", "green", "blue", "Ünï"][k] for k in kind],
            "shop": shop,
            "x": x,
            "y": y,
            "z": y > 0.5,
        }
    )


FEATURES = ["city", "kind", "shop", "x"]


def fit(df: pl.DataFrame, target: str = "y", features: list[str] | None = None, **params) -> bytes:
    return df.select(tg.fit_gbdt(target, *(features or FEATURES), rounds=20, **params)).item()


def rmse(df: pl.DataFrame, model: bytes) -> float:
    return df.select(((tg.predict(model) - pl.col("y")) ** 2).mean().sqrt()).item()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_categories_are_learnt_from(policy: str, method: str) -> None:
    if (policy, method) == ("symmetric", "partition"):
        pytest.skip("a subset belongs to one node")
    train, test = table(2000, 1), table(1000, 2)
    model = fit(train, policy=policy, cat_method=method)
    assert rmse(test, model) < 0.8 * rmse(test, fit(train, features=["shop", "x"], policy=policy))


@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_the_type_of_a_text_does_not_matter(method: str) -> None:
    df = table()
    params = {"policy": "depthwise", "cat_method": method}
    expected = fit(df, **params)
    labels = sorted(df["city"].drop_nulls().unique())
    types = [pl.Categorical, pl.Enum(labels), pl.Enum(["other", *reversed(labels)])]
    for dtype in types:
        other = df.with_columns(pl.col("city").cast(dtype), pl.col("kind").cast(pl.Categorical))
        assert fit(other, **params) == expected
    # The same strings in another Categorical, whose physical codes start elsewhere.
    other = pl.Series(["zzz", *df["city"]], dtype=pl.Categorical)[1:].alias("city")
    assert fit(df.with_columns(other), **params) == expected
    reference = df.select(tg.predict(expected))
    for dtype in types:
        assert df.with_columns(pl.col("city").cast(dtype)).select(tg.predict(expected)).equals(reference)


def test_threads_and_chunks_do_not_matter() -> None:
    df = table(20_000)
    expected = fit(df, n_threads=1)
    assert fit(df, n_threads=2) == expected
    pieces = pl.concat([df.slice(i, 777) for i in range(0, df.height, 777)], rechunk=False)
    assert fit(pieces, n_threads=2) == expected
    assert fit(pl.concat([df, df]).slice(df.height), n_threads=2) == expected
    assert df.select(tg.fit_gbdt("y", pl.struct(FEATURES), rounds=20)).item() == expected


def test_unseen_categories_are_those_without_rows() -> None:
    df = table()
    model = fit(df)
    strange = df.with_columns(city=pl.lit("nowhere"))
    unseen = strange.select(tg.predict(model)).to_series()
    assert unseen.is_finite().all()
    assert strange.with_columns(city=pl.lit("elsewhere")).select(tg.predict(model)).to_series().equals(unseen)
    # Null was seen, and is a category like any other.
    null = df.with_columns(city=pl.lit(None, dtype=pl.String)).select(tg.predict(model)).to_series()
    assert not null.equals(unseen)
    # Where it was not seen, it is as unknown as others.
    model = fit(df.filter(pl.col("city").is_not_null()))
    null, nowhere = (df.with_columns(city=pl.lit(c, dtype=pl.String)) for c in (None, "nowhere"))
    assert null.select(tg.predict(model)).equals(nowhere.select(tg.predict(model)))


def test_predict_streams_and_joins_models() -> None:
    df = table()
    model = fit(df)
    expected = df.select(tg.predict(model)).to_series()
    pieces = pl.concat([df.slice(i, 50) for i in range(0, df.height, 50)], rechunk=False)
    assert pieces.lazy().select(tg.predict(model)).collect().to_series().equals(expected)
    models = df.group_by("shop").agg(m=tg.fit_gbdt("y", "city", "kind", "x", rounds=5))
    joined = df.with_row_index().join(models, on="shop").sort("index")
    together = joined.select(tg.predict("m", "city", "kind", "x")).to_series()
    for (shop,), part in joined.partition_by("shop", as_dict=True, include_key=True).items():
        alone = df.filter(pl.col("shop") == shop).select(tg.fit_gbdt("y", "city", "kind", "x", rounds=5)).item()
        assert part["m"][0] == alone
        rows = part["index"].to_list()
        assert part.select(tg.predict(alone, "city", "kind", "x")).to_series().to_list() == [together[r] for r in rows]


def test_integers_and_booleans_by_name() -> None:
    df = table(1500).with_columns(flag=pl.col("shop") == 4)
    features = ["shop", "flag", "x"]
    model = fit(df, features=features, categorical=["shop", "flag"])
    assert dict(tg.Model.from_bytes(model).features) == {"shop": "categorical", "flag": "categorical", "x": "numeric"}
    assert model == fit(df.with_columns(pl.col("shop").cast(pl.Int8)), features=features, categorical=["shop", "flag"])
    predicted = df.select(tg.predict(model)).to_series()
    assert df.with_columns(pl.col("shop").cast(pl.UInt32)).select(tg.predict(model)).to_series().equals(predicted)
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `shop`.*type is str"):
        df.with_columns(pl.col("shop").cast(pl.String)).select(tg.predict(model))
    with pytest.raises(pl.exceptions.ComputeError, match=r"`categorical`: there is no feature `shap`"):
        fit(df, categorical=["shap"])
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `x`: its type is f64; a category is"):
        fit(df, categorical=["x"])


@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_the_model_explains_itself(method: str) -> None:
    df = table()
    model = tg.Model.from_bytes(fit(df, "z", policy="leafwise", cat_method=method))
    importance = dict(model.importance().iter_rows())
    assert set(importance) == set(FEATURES)
    assert importance["city"] > 0
    names = {name for name in model.trees()["feature"] if name is not None}
    text = " ".join(names)
    pattern = {"ctr": r"borders\(city.*, prior", "one_hot": r"city in \{", "partition": r"city in \{city \d+, "}[method]
    assert re.search(pattern, text), names
    assert "derived" in model.to_json()
    assert tg.Model.from_bytes(model.to_bytes()) == model


def test_errors_name_the_column() -> None:
    df = table()
    model = fit(df)
    with pytest.raises(
        pl.exceptions.ComputeError, match="column `city`: its type is f64; the model was fitted on categorical text"
    ):
        df.with_columns(city=pl.lit(1.0)).select(tg.predict(model))
    with pytest.raises(pl.exceptions.ComputeError, match=r"missing: `city` \(categorical text\)"):
        df.select(tg.predict(model, "kind", "shop", "x"))
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `d`: its type is list"):
        df.with_columns(d=pl.lit([1, 2])).select(tg.fit_gbdt("y", "d", "x"))
    with pytest.raises(ValueError, match=r"`cat_method`.*depthwise"):
        tg.fit_gbdt("y", "city", cat_method="partition")
    with pytest.raises(pl.exceptions.ComputeError, match=r"monotone.*`city` is categorical"):
        fit(df, monotone={"city": 1})
    with pytest.raises(pl.exceptions.ComputeError, match="ctr_table_limit = 3"):
        fit(df, ctr_table_limit=3)
    nothing = df.with_columns(city=pl.lit(None, dtype=pl.String))
    assert nothing.taiga.fit_gbdt("y", "city").trees()["leaf"].null_count() == 0


def test_adult_is_no_worse_than_the_peers() -> None:
    """All 14 columns of adult as they are; CatBoost and LightGBM with their own categories."""
    from catboost import CatBoostClassifier, Pool
    from lightgbm import Dataset, train

    path = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
    if not path.exists():
        pytest.skip("shared/data/adult.csv does not lie beside this repository")
    df = pl.read_csv(path, infer_schema_length=10_000).with_columns(z=pl.col("income").str.contains(">50K"))
    df = df.drop("income").with_columns(pl.col(pl.String).fill_null("missing")).sample(fraction=0.5, seed=1)
    features = [c for c in df.columns if c != "z"]
    cats = [c for c in features if df[c].dtype == pl.String]
    rows, test = df.head(16_000), df.slice(16_000)
    truth = test["z"].to_numpy()
    model = rows.select(tg.fit_gbdt("z", *features, rounds=60)).item()
    ours = roc_auc_score(truth, test.select(tg.predict(model)).to_series().to_numpy())
    settings = {"iterations": 60, "learning_rate": 0.1, "depth": 6, "verbose": 0, "thread_count": 2}
    cat = CatBoostClassifier(allow_writing_files=False, **settings)
    cat.fit(Pool(rows.select(features).to_pandas(), rows["z"].to_numpy().astype(int), cat_features=cats))
    theirs = roc_auc_score(truth, cat.predict_proba(test.select(features).to_pandas())[:, 1])
    frame, other = (d.select(features).to_pandas() for d in (rows, test))
    for c in cats:
        frame[c] = frame[c].astype("category")
        other[c] = other[c].astype("category").cat.set_categories(frame[c].cat.categories)
    params = {"objective": "binary", "verbose": -1, "num_threads": 2}
    leafwise = roc_auc_score(truth, train(params, Dataset(frame, rows["z"].to_numpy()), 60).predict(other))
    assert ours > max(theirs, leafwise) - 0.002
