"""Features that are expressions: a model knows them, and `predict` never reads a raw column in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

POLARS_2 = not pl.__version__.startswith("1.")


@pytest.fixture(scope="module")
def f() -> pl.DataFrame:
    """`y` depends on the logarithm of `price`."""
    rng = np.random.default_rng(3)
    price, b = np.exp(rng.normal(size=400) * 2), rng.normal(size=400)
    y = np.log(price) + b
    return pl.DataFrame(
        {"price": price, "b": b, "y": y, "flag": y > 0, "city": [["Rome", "Bern"][i % 2] for i in range(400)]}
    )


FITS: dict[str, Any] = {
    "gbdt": lambda f, *x, **p: f.taiga.fit_gbdt("y", *x, **p),
    "forest": lambda f, *x, **p: f.taiga.fit_forest("y", *x, trees=20, **p),
    "sparse_lr": lambda f, *x, **p: f.taiga.fit_sparse_lr("flag", dense=list(x), **p),
}


@pytest.mark.parametrize("learner", FITS)
def test_a_computed_feature_is_never_read_raw(learner: str, f: pl.DataFrame) -> None:
    """`price` of the model is the logarithm: the column `price` must not be taken for it."""
    log = pl.col("price").log()
    m = FITS[learner](f, log, "b")
    assert m.computed_features == ["price"]
    assert list(m.features) == ["price", "b"]
    for call in (lambda: tg.predict(m), lambda: tg.predict(m.to_bytes()), lambda: f.taiga.predict(m)):
        with pytest.raises(ValueError, match=r"predict: `price` was computed by an expression at the fit"):
            call()
    given = f.select(tg.predict(m, log, "b")).to_series()
    ready = f.with_columns(price=log)
    bare = FITS[learner](ready, "price", "b")
    assert bare.computed_features == []
    assert given.equals(ready.select(tg.predict(bare)).to_series())
    assert f.taiga.predict(m, "b", log)["prediction"].equals(given)
    # Only what is new stands in a model: without it the bytes have the version of before. A linear model knows means,
    # which are newer than computed features.
    newer = 0 if learner == "sparse_lr" else 1
    assert int.from_bytes(m.to_bytes()[8:12], "little") == int.from_bytes(bare.to_bytes()[8:12], "little") + newer
    assert tg.Model.from_bytes(m.to_bytes()).computed_features == ["price"]


def test_a_regression_on_a_logarithm(f: pl.DataFrame) -> None:
    m = f.taiga.fit_gbdt("y", pl.col("price").log(), "b")
    error = f.select(((tg.predict(m, pl.col("price").log(), "b") - pl.col("y")) ** 2).mean().sqrt()).item()
    assert error < 0.3


BARE: dict[str, Any] = {
    "names": ["price", "b"],
    "expressions": [pl.col("price"), pl.col("b")],
    "one expression": [pl.col("price", "b")],
    "pattern": [pl.col("^(price|b)$")],
    "selector": [cs.by_name("price", "b")],
    "difference": [cs.float() - cs.by_name("y")],
    "all but": [pl.exclude("y", "flag", "city")],
    "by type": [pl.col(pl.Float64).exclude("y")],
    "list": [["price"], "b"],
    "its own name": [pl.col("price").alias("price"), "b"],
    "struct": [pl.struct("price", "b")],
    "named struct": [pl.struct("price", "b").alias("s")],
    "nested structs": [pl.struct("price", pl.struct("b"))],
}


@pytest.mark.parametrize("how", BARE)
def test_columns_as_they_are_need_not_be_given_again(how: str, f: pl.DataFrame) -> None:
    m = f.taiga.fit_gbdt("y", *BARE[how], rounds=5)
    assert m == f.taiga.fit_gbdt("y", "price", "b", rounds=5)
    assert m.computed_features == []
    assert f.select(tg.predict(m)).height == f.height


COMPUTED: dict[str, tuple[list[Any], list[str]]] = {
    "alias": ([pl.col("price").alias("cost"), "b"], ["cost"]),
    "suffix": (["b", pl.col("price").name.suffix("_x")], ["price_x"]),
    "cast": ([pl.col("price").cast(pl.Float32), "b"], ["price"]),
    "selector": ([cs.by_name("price", "b") * 2], ["price", "b"]),
    "selector, no column": ([cs.date().dt.year(), "price"], []),
    "struct": ([pl.struct("b", pl.col("price").log())], ["price"]),
    "named in a struct": ([pl.struct("b", cost="price")], ["cost"]),
    "both ways": ([pl.col("price").log(), "b", pl.col("b").abs().alias("c")], ["price", "c"]),
    "of nothing": (["b", pl.lit(1.0).alias("one")], ["one"]),
    "field": (["b", pl.struct("price").struct.field("price")], ["price"]),
}


@pytest.mark.parametrize("how", COMPUTED)
def test_what_is_computed_is_named(how: str, f: pl.DataFrame) -> None:
    features, computed = COMPUTED[how]
    if how == "named in a struct" and not POLARS_2:
        # Polars 1 does not let such a struct be taken apart: all its fields count as computed.
        computed = ["b", "cost"]
    m = f.taiga.fit_gbdt("y", *features, rounds=5)
    assert m.computed_features == computed
    assert f.select(tg.predict(m, *features)).height == f.height
    if computed:
        with pytest.raises(ValueError, match=f"predict: `{computed[0]}`"):
            tg.predict(m)
    else:
        assert f.select(tg.predict(m)).height == f.height


def test_marks_change_neither_the_order_nor_the_trees(f: pl.DataFrame) -> None:
    """The order decides ties, and with them the bytes."""
    features = [pl.col("price").log().alias("p"), "b", pl.col("price").sqrt().alias("q"), pl.col("price")]
    ready = f.select("y", *features)
    a, b = f.taiga.fit_gbdt("y", *features), ready.taiga.fit_gbdt("y", "p", "b", "q", "price")
    assert list(a.features) == list(b.features) == ["p", "b", "q", "price"]
    assert a.trees().equals(b.trees())
    assert a.computed_features == ["p", "q"]


@pytest.mark.parametrize("learner", ["gbdt", "forest", "sparse_lr"])
def test_fields_of_a_struct_column_are_read_from_it(learner: str, f: pl.DataFrame) -> None:
    """They can't be found under their own names, where another column may stand."""
    target = "flag" if learner == "sparse_lr" else "y"
    s = f.select(target, s=pl.struct("price", "b"), price=pl.lit(0.0), c=pl.col("b") ** 2)

    def fit(frame: pl.DataFrame, *names: str) -> tg.Model:
        features = {"dense": names} if learner == "sparse_lr" else {}
        return getattr(frame.taiga, f"fit_{learner}")(target, *([] if features else names), **features)

    m = fit(s, "c", "s")
    assert (m.computed_features, m.structs) == ([], {"s": ["price", "b"]})
    flat = f.with_columns(c=pl.col("b") ** 2)
    bare = fit(flat, "c", "price", "b")
    assert bare.structs == {}
    expected = flat.select(tg.predict(bare)).to_series()
    for found in (s.select(tg.predict(m)), s.select(tg.predict(m, "c", "s")), s.lazy().select(tg.predict(m)).collect()):
        assert found.to_series().equals(expected)
    assert m.predict(s).equals(expected)
    assert s.with_row_index().select(tg.predict(m).over(pl.col("index") % 3)).to_series().equals(expected)
    # What travels as bytes or JSON knows of it; metadata beside it or not.
    for model in (m, m.with_metadata({"a": 1})):
        assert tg.Model.from_bytes(model.to_bytes()).structs == {"s": ["price", "b"]}
        read = tg.Model.from_json(model.to_json())
        assert (read.structs, read.metadata, read.to_bytes()) == (m.structs, model.metadata, model.to_bytes())
    # Without the struct: an error of the plan; with an expression in its place, that is needed again.
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="s"):
        flat.select(tg.predict(m))
    computed = s.taiga.fit_gbdt(target, pl.col("s").struct.rename_fields(["p", "q"])) if learner == "gbdt" else None
    if computed is not None:
        assert (computed.computed_features, computed.structs) == (["p", "q"], {})


def test_two_structs_and_a_nested_one(f: pl.DataFrame) -> None:
    s = f.select("y", a=pl.struct("price"), n=pl.struct(pl.struct("b").alias("inner"), pl.col("b").abs().alias("c")))
    m = s.taiga.fit_gbdt("y", "a", "n", pl.col("y").is_null().alias("z"))
    assert (m.computed_features, m.structs) == (["z"], {"a": ["price"], "n": ["b", "c"]})
    with pytest.raises(ValueError, match="`z` was computed by an expression at the fit"):
        tg.predict(m)
    assert s.select(tg.predict(m, "a", "n", pl.lit(False).alias("z"))).height == f.height


def test_groups_and_lazy_queries_know_computed_features(f: pl.DataFrame) -> None:
    log = pl.col("price").log()
    models = f.group_by("city").agg(tg.fit_gbdt("y", log, "b", rounds=5))
    for data in models["model"]:
        assert tg.Model(data).computed_features == ["price"]
    assert f.lazy().taiga.fit_gbdt("y", log, "b", rounds=5).computed_features == ["price"]
    joined = f.join(models, on="city").select(tg.predict("model", log, "b"))
    assert joined.height == f.height


def test_lists_that_are_computed_are_named(f: pl.DataFrame) -> None:
    lists = f.select("flag", i=pl.concat_list((pl.col("price") > 1).cast(pl.Int64)), v=pl.concat_list("b"))
    shifted = pl.col("i").list.eval(pl.element() + 1)
    m = lists.taiga.fit_sparse_lr("flag", shifted, "v")
    assert m.computed_features == ["i"]
    with pytest.raises(ValueError, match="predict: `i` was computed"):
        tg.predict(m)
    assert lists.select(tg.predict(m, shifted, "v")).height == lists.height
    both = lists.taiga.fit_sparse_lr(
        "flag", "i", pl.col("v").list.eval(pl.element() * 2), dense=pl.lit(1.0).alias("one")
    )
    assert both.computed_features == ["v", "one"]
    assert lists.taiga.fit_sparse_lr("flag", "i", "v").computed_features == []


def test_encoders_know_computed_columns(f: pl.DataFrame) -> None:
    upper = pl.col("city").str.to_uppercase()
    encoder = f.taiga.fit_target_encoder(upper, "y")
    with pytest.raises(ValueError, match=r"encode: `city` was computed by an expression at the fit"):
        tg.encode(encoder)
    given = f.select(tg.encode(encoder, upper)).to_series()
    assert given.equals(f.with_columns(city=upper).select(tg.encode(encoder, "city")).to_series())
    bare = f.taiga.fit_target_encoder("city", "y")
    assert f.select(tg.encode(bare)).to_series().equals(given)
    assert int.from_bytes(bare.to_bytes()[8:12], "little") == 1
    several = f.taiga.fit_target_encoder([cs.string(), upper.alias("up")], "y")
    with pytest.raises(ValueError, match="encode: `up`"):
        tg.encode(several)
    assert f.select(tg.encode(several, "city")).to_series().equals(given)
