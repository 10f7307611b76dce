"""Class labels: a class comes back as what it was, Enums keep their order, `positive=` chooses the class."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

# In Polars 1 an Enum reaches a plugin as a Categorical, and named categories do not exist.
POLARS_2 = not pl.__version__.startswith("1.")
polars_2 = pytest.mark.skipif(not POLARS_2, reason="in Polars 1 an Enum reaches a plugin as a Categorical")

FITS: dict[str, Any] = {
    "gbdt": lambda f, y="y", **p: f.taiga.fit_gbdt(y, "x", rounds=3, depth=2, **p),
    "forest": lambda f, y="y", **p: f.taiga.fit_forest(y, "x", trees=5, **p),
    "sparse_lr": lambda f, y="y", **p: f.taiga.fit_sparse_lr(y, dense="x", **p),
}
CLASSES: dict[str, Any] = {"gbdt": {"loss": "logloss"}, "forest": {"criterion": "gini"}, "sparse_lr": {}}


def table(labels: list[Any], dtype: Any, rows: int = 60) -> pl.DataFrame:
    """`x`, and as `y` the labels in turn by thirds or halves of the range of `x`."""
    codes = [i * len(labels) // rows for i in range(rows)]
    y = pl.Series([labels[c] for c in codes]).cast(dtype)
    return pl.DataFrame({"x": np.arange(rows, dtype=float), "y": y})


TYPES: list[Any] = [
    *[(t, [1, 0]) for t in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)],
    (pl.Float32, [0.0, 1.0]),
    (pl.Float64, [0.0, 1.0]),
    (pl.Boolean, [True, False]),
    (pl.String, ["b", "a"]),
    (pl.Categorical, ["b", "a"]),
    pytest.param(pl.Enum(["small", "medium", "large"]), ["large", "small"], marks=polars_2),
    pytest.param(pl.Decimal(5, 1), [Decimal("1.0"), Decimal("0.0")], marks=polars_2),
]


@pytest.mark.parametrize("learner", FITS)
@pytest.mark.parametrize(("dtype", "labels"), TYPES)
def test_a_class_comes_back_as_what_it_was(learner: str, dtype: Any, labels: list[Any]) -> None:
    f = table(labels, dtype)
    m = FITS[learner](f, **CLASSES[learner])
    plan = f.lazy().select(c=tg.predict(m, output="class"))
    assert plan.collect_schema()["c"] == f["y"].dtype
    predicted = plan.collect()["c"]
    assert predicted.dtype == f["y"].dtype
    assert (predicted.cast(pl.String) == f["y"].cast(pl.String)).mean() > 0.9
    assert sorted(m.classes) == sorted(f["y"].unique().to_list())
    assert [type(c) for c in m.classes] == [type(v) for v in f["y"].unique().to_list()]
    again = tg.Model.from_bytes(m.to_bytes())
    assert again == m
    assert again.classes == m.classes
    # A model that is an expression gives the same, the plan told by dtype=.
    own = f["y"].dtype
    each = f.with_columns(m=pl.lit(m.to_bytes())).lazy().select(c=tg.predict("m", "x", output="class", dtype=own))
    assert each.collect_schema()["c"] == own
    assert each.collect()["c"].equals(predicted.alias("c"))


@polars_2
def test_every_integer_and_float_type_comes_back() -> None:
    for dtype in (pl.Int128, pl.UInt128, pl.Float16):
        f = table([1, 0], dtype)
        m = FITS["gbdt"](f, loss="logloss")
        predicted = f.select(tg.predict(m, output="class")).to_series()
        assert predicted.dtype == dtype
        assert predicted.equals(f["y"].alias("prediction"))


@polars_2
@pytest.mark.parametrize("learner", FITS)
def test_labels_of_an_enum_stand_in_its_order(learner: str) -> None:
    order = pl.Enum(["low", "medium", "high", "unused"])
    f = table(["low", "high"], order)
    m = FITS[learner](f)
    # As text "high" would come first.
    assert m.classes == ["low", "high"]
    p = f.select(tg.predict(m)).to_series()
    assert p[-1] > 0.5 > p[0]
    f = table(["low", "medium", "high"], order)
    m = FITS[learner](f)
    assert m.classes == ["low", "medium", "high"]
    schema = f.lazy().select(tg.predict(m)).collect_schema()
    assert schema["prediction"] == pl.Struct(dict.fromkeys(["low", "medium", "high"], pl.Float64))
    predicted = f.select(tg.predict(m, output="class")).to_series()
    assert predicted.dtype == order
    assert predicted.sort()[0] == "low"


@polars_2
def test_a_categorical_keeps_its_categories() -> None:
    dtype = pl.Categorical(pl.Categories("cities", "shop", pl.UInt8))
    f = table(["Rome", "Bern"], dtype)
    m = FITS["gbdt"](f)
    assert m.classes == ["Bern", "Rome"]
    plan = f.lazy().select(c=tg.predict(m, output="class"))
    assert plan.collect_schema()["c"] == dtype
    assert plan.collect()["c"].equals(f["y"].alias("c"))
    assert plan.with_columns(y=pl.lit(f["y"])).select((pl.col("c") == pl.col("y")).all()).collect().item()


@pytest.mark.parametrize("learner", FITS)
@pytest.mark.parametrize(
    ("dtype", "labels", "positive"),
    [
        (pl.String, ["a", "b"], "a"),
        (pl.Categorical, ["a", "b"], "a"),
        (pl.Boolean, [False, True], False),
        (pl.UInt8, [3, 7], 3),
        (pl.Int64, [-1, 1], np.int8(-1)),
        (pl.Float32, [0.0, 1.0], 0),
        pytest.param(pl.Enum(["b", "a"]), ["a", "b"], "b", marks=polars_2),
    ],
)
def test_positive_chooses_the_class(learner: str, dtype: Any, labels: list[Any], positive: Any) -> None:
    f = table(labels, dtype)
    other = next(v for v in labels if v != positive)
    default = FITS[learner](f, **CLASSES[learner])
    m = FITS[learner](f, positive=positive, **CLASSES[learner])
    assert m.classes == [other, positive]
    assert default.classes == [positive, other]
    # The same separation, the other way round.
    p, q = (f.select(tg.predict(x)).to_series() for x in (m, default))
    assert (p - (1 - q)).abs().max() < 1e-6
    first = f["y"].cast(pl.String) == pl.Series([positive]).cast(dtype).cast(pl.String)[0]
    assert p.filter(first).mean() > 0.5 > p.filter(~first).mean()
    same = f.select(a=tg.predict(m, output="class"), b=tg.predict(default, output="class"))
    assert same["a"].dtype == same["b"].dtype == f["y"].dtype
    assert same["a"].equals(same["b"].alias("a"))
    assert m.params["positive"] == positive
    assert "positive" not in default.params
    # The class that is the positive one anyway changes nothing but the parameters.
    explicit = FITS[learner](f, positive=other, **CLASSES[learner])
    assert f.select(tg.predict(explicit)).equals(f.select(tg.predict(default)))


@pytest.mark.parametrize("learner", FITS)
def test_weights_by_label_and_positive_go_together(learner: str) -> None:
    f = table(["a", "b"], pl.String).with_columns(x=pl.col("x") % 7)
    weights = {"a": 5.0, "b": 1.0}
    m = FITS[learner](f, class_weight=weights, positive="a")
    default = FITS[learner](f, class_weight=weights)
    p, q = (f.select(tg.predict(x)).to_series() for x in (m, default))
    assert p.min() > 0.5
    assert (p - (1 - q)).abs().max() < 1e-3


@pytest.mark.parametrize("learner", FITS)
def test_a_wrong_positive_is_an_error_that_lists_the_labels(learner: str) -> None:
    fit = FITS[learner]
    two, three = table(["a", "b"], pl.String), table(["a", "b", "c"], pl.String)
    with pytest.raises(pl.exceptions.ComputeError, match=r'`positive`: the target has no class "z"; .* "a", "b"'):
        fit(two, positive="z")
    with pytest.raises(pl.exceptions.ComputeError, match=r'`positive`: .* has 3: "a", "b", "c"'):
        fit(three, positive="a")
    with pytest.raises(pl.exceptions.ComputeError, match=r"`positive`: the target has no class 1; .* false, true"):
        fit(table([True, False], pl.Boolean), positive=1)
    with pytest.raises(ValueError, match=r"`positive`: .*a label: text, a number, or True or False"):
        fit(two, positive=["a"])
    with pytest.raises(TypeError, match=r"`pos_label`; did you mean `positive`"):
        fit(two, pos_label="a")
    if learner != "sparse_lr":
        with pytest.raises(pl.exceptions.ComputeError, match=r"`positive`: .*the target is numeric"):
            fit(table([0.0, 1.0], pl.Float64), positive=1)


def test_models_of_several_types_of_labels_meet_in_what_they_are_kept_as() -> None:
    """Of a column of models the plan may also name String for every text, Int64 for every integer."""
    a, b = table(["a", "b"], pl.Categorical), table(["a", "b"], pl.String)
    models = pl.DataFrame({"m": [FITS["gbdt"](a).to_bytes(), FITS["gbdt"](b).to_bytes()], "x": [0.0, 59.0]})
    out = models.select(tg.predict("m", "x", output="class", dtype=pl.String)).to_series()
    assert out.to_list() == ["a", "b"]
    with pytest.raises(pl.exceptions.ComputeError, match="gives String, and the query was planned for Categorical"):
        models.select(tg.predict("m", "x", output="class", dtype=pl.Categorical))
    with pytest.raises(ValueError, match="needs dtype="):
        tg.predict("m", "x", output="class")
    with pytest.raises(ValueError, match="needs dtype="):
        tg.predict("m", "x", output="class", dtype=pl.Date)
    frame = models.taiga.predict(pl.col("m"), "x", output="class", dtype=pl.String)
    assert frame["prediction"].to_list() == ["a", "b"]


@polars_2
def test_another_enum_than_the_models_is_an_error_that_shows_both() -> None:
    m = FITS["gbdt"](table(["a", "b"], pl.Enum(["a", "b"])))
    f = pl.DataFrame({"m": [m.to_bytes()] * 2, "x": [0.0, 59.0]})
    with pytest.raises(pl.exceptions.ComputeError, match=r'gives Enum\(\["a", "b"\]\), .* Enum\(\["b", "a"\]\)'):
        f.select(tg.predict("m", "x", output="class", dtype=pl.Enum(["b", "a"])))


def test_labels_kept_as_they_are_leave_no_trace_in_bytes() -> None:
    """Models of the four types that labels are kept as have the format version from before types were kept.

    A linear model's is newer anyway: it knows the means of its training rows.
    """
    for dtype, labels in [
        (pl.Int64, [0, 1]),
        (pl.Float64, [0.0, 1.0]),
        (pl.Boolean, [False, True]),
        (pl.String, ["a", "b"]),
    ]:
        for learner, version in [("gbdt", 2), ("forest", 1), ("sparse_lr", 3)]:
            data = FITS[learner](table(labels, dtype), **CLASSES[learner]).to_bytes()
            assert int.from_bytes(data[8:12], "little") == version
    data = FITS["gbdt"](table([0, 1], pl.UInt8), loss="logloss").to_bytes()
    assert int.from_bytes(data[8:12], "little") == 3
