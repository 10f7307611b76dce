"""Conformals of what they can't hold: losses, arguments, types, rows at fault."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

from tests.test_conformal import COLUMNS, LABELS, rows

INTERVALS: list[dict[str, Any]] = [{}, {"by": "g"}, {"method": "cqr"}, {"method": "cv+", "folds": 3}]
SETS: list[dict[str, Any]] = [{"method": "lac", "classes": LABELS}, {"method": "aps", "classes": ["u", "w"]}]
FIRST = pl.__version__.startswith("1.")


def of(made: dict[str, Any], target: str = "y", **more: Any) -> pl.Expr:
    """A small fit; but for `"cv+"`, column `held` says which rows calibrate, since in groups Polars 1 draws none."""
    drawn = {} if made.get("method") == "cv+" else {"calibration": "held"}
    return tg.conformal(target, *COLUMNS, rounds=2, min_child_weight=0, **made, **drawn, **more)


def table(n: int = 60) -> pl.DataFrame:
    return rows(n).with_columns(held=pl.int_range(n) % 4 == 0, w=1.0 + pl.int_range(n) % 3, n=pl.lit(None))


def put(df: pl.DataFrame, column: str, value: Any, row: int) -> pl.DataFrame:
    return df.with_columns(pl.when(pl.int_range(df.height) == row).then(pl.lit(value)).otherwise(column).alias(column))


@pytest.mark.parametrize("made", [*INTERVALS, *SETS])
@pytest.mark.parametrize("optimized", [True, False])
def test_weights_of_zero_calibrate_nothing_in_any_engine(made: dict[str, Any], optimized: bool) -> None:
    """Proves that rows of weight 0 are as if they were not there, streaming and without common subexpressions too."""
    df = table(200).with_columns(pl.when(pl.col("kind") == "v").then(pl.lit("u")).otherwise("kind").alias("two"))
    target = "y" if "classes" not in made else "kind" if len(made["classes"]) == 3 else "two"
    df = df.with_columns(w=pl.when(pl.int_range(200) % 5 == 1).then(0.0).otherwise("w"))
    call = of(made, target, weight="w")
    fitted = df.select(call).item()
    query = df.lazy().select(call)
    if not FIRST:
        assert query.collect(engine="streaming").item() == fitted
    assert query.collect(**unshared(optimized)).item() == fitted
    if "folds" not in made:
        # Which fold a row is in is by its number.
        offset = "offsets" if "by" in made else "offset"
        assert df.filter(pl.col("w") > 0).select(call).item()[offset] == fitted[offset]


def unshared(optimized: bool) -> dict[str, Any]:
    """What `collect` is given so that Polars computes nothing once that stands twice."""
    if optimized:
        return {}
    return {"comm_subexpr_elim": False} if FIRST else {"optimizations": pl.QueryOptFlags(comm_subexpr_elim=False)}


@pytest.mark.parametrize("made", [INTERVALS[0], INTERVALS[2], SETS[0]])
@pytest.mark.parametrize(
    "weight",
    [
        pl.col("kind").cast(pl.Categorical),
        pl.col("kind").cast(pl.Enum(LABELS)),
        pl.col("g").cast(pl.Date),
        pl.col("g").cast(pl.Datetime),
        pl.col("g").cast(pl.Duration),
        pl.col("g").cast(pl.Int64).cast(pl.Time),
        pl.col("kind").cast(pl.Binary),
        pl.col("kind"),
        pl.concat_list("g"),
        pl.struct("g"),
    ],
)
def test_a_weight_that_is_no_number_is_an_error_that_names_it(made: dict[str, Any], weight: pl.Expr) -> None:
    """Proves that no type of a weight ends a query in a panic."""
    df = table()
    target = "kind" if "classes" in made else "y"
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `heavy`: its type is .*; a weight is a number: cast"):
        df.select(of(made, target, weight=weight.alias("heavy")))


@pytest.mark.parametrize("made", [*INTERVALS, SETS[0]])
@pytest.mark.parametrize("value", [None, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("row", [4, 5])
def test_weights_are_checked_in_all_rows(made: dict[str, Any], value: float | None, row: int) -> None:
    """Proves that a weight which is none is an error in a row that calibrates as in one that is fitted."""
    with pytest.raises(pl.exceptions.ComputeError, match="column `w`"):
        put(table(), "w", value, row).select(of(made, "kind" if "classes" in made else "y", weight="w"))


OTHERS = ["gaussian", "multiclass", "ova", "multilabel", "lambdarank", "pairwise", "xendcg", "yetirank", "cox", "aft"]
NUMBERS = ["rmse", "mae", "quantile", "huber", "expectile", "poisson", "gamma", "tweedie", "log_cosh", "mape"]


@pytest.mark.parametrize("method", ["split", "cv+"])
@pytest.mark.parametrize("loss", OTHERS)
def test_losses_without_a_number_are_errors_that_name_them(method: Any, loss: Any) -> None:
    """Proves that an interval is put around numbers alone, as is said before a query runs."""
    with pytest.raises(ValueError, match=f"parameter `loss`: '{loss}' "):
        tg.conformal("y", *COLUMNS, method=method, loss=loss)


@pytest.mark.parametrize("method", ["split", "cv+"])
@pytest.mark.parametrize("loss", NUMBERS)
def test_losses_of_numbers_have_intervals(method: Any, loss: Any) -> None:
    """Proves that every loss which predicts a number on the target's scale is held."""
    df, own = table(200).with_columns(pl.col("y").abs() + 1), {"method": method, "folds": 3}
    fitted = df.select(tg.conformal("y", *COLUMNS, loss=loss, rounds=3, **own)).item()
    out = df.with_columns(tg.interval(fitted, *COLUMNS, **own)).unnest("interval")
    assert out.select(pl.col("y").is_between("lower", "upper").mean()).item() > 0.8


@pytest.mark.parametrize("method", ["aps", "lac"])
def test_losses_without_classes_have_no_sets(method: Any) -> None:
    """Proves that a loss of numbers, or of more labels than there are, is an error that names it."""
    given: dict[str, Any] = {"method": method, "classes": LABELS}
    for loss in ("rmse", "cross_entropy", "gaussian", "multilabel", "lambdarank", "cox"):
        with pytest.raises(ValueError, match=f"parameter `loss`: '{loss}' has no probabilities of classes"):
            tg.conformal("kind", *COLUMNS, loss=loss, **given)
    own = tg.loss(lambda y, f: (y - f) ** 2)
    with pytest.raises(ValueError, match="parameter `loss`: a loss of one's own has no probabilities of classes"):
        tg.conformal("kind", *COLUMNS, loss=own, **given)
    for loss in ("multiclass", "ova"):
        with pytest.raises(ValueError, match=f"parameter `loss`: '{loss}' is for three labels or more"):
            tg.conformal("yes", *COLUMNS, loss=loss, method=method, classes=[False, True])
        df = table(200)
        fitted = df.select(tg.conformal("kind", *COLUMNS, loss=loss, rounds=3, **given)).item()
        sets = df.with_columns(tg.interval(fitted, *COLUMNS, **given))
        assert sets.select(pl.col("interval").list.contains(pl.col("kind")).mean()).item() > 0.8


@pytest.mark.parametrize("method", ["split", "cqr", "cv+", "lac"])
@pytest.mark.parametrize("name", ["baseline", "event", "lower", "upper"])
def test_what_intervals_do_not_know_is_no_parameter(method: Any, name: str) -> None:
    """Proves that scores which predictions lack, and times which are not known, make no silent interval."""
    given: dict[str, Any] = {"method": method, "classes": LABELS} if method == "lac" else {"method": method}
    target = "kind" if method == "lac" else "y"
    with pytest.raises(TypeError, match=f"there is no parameter `{name}`"):
        tg.conformal(target, *COLUMNS, **given, **{name: "w"})
    assert table().select(tg.conformal(target, *COLUMNS, rounds=1, **given, **{name: None})).item() is not None


@pytest.mark.parametrize("alpha", [1e-5, 1e-4, 2e-4, 0.1, 1 - 1e-12])
def test_quantiles_are_picked_by_their_place(alpha: float) -> None:
    """Proves that `"cqr"` has intervals of every `alpha`, whose quantiles a model may name in its own way."""
    df = table(200)
    call = tg.conformal("y", *COLUMNS, method="cqr", alpha=alpha, rounds=3)
    fitted = df.select(call).item()
    out = df.select(tg.interval(fitted, *COLUMNS, method="cqr")).unnest("interval")
    assert out.select((pl.col("lower") <= pl.col("upper")).all()).item()
    assert out["upper"].is_infinite().all() == (alpha < 0.01)


def test_a_column_of_quantiles_is_read_by_the_names_that_python_gives_them() -> None:
    """Proves that a column of conformals by `"cqr"` is read where `alpha` has an exponent."""
    df = table(200).with_columns(tg.conformal("y", *COLUMNS, method="cqr", alpha=1e-5, rounds=3))
    out = df.select(tg.interval("conformal", *COLUMNS, method="cqr", alpha=1e-5)).unnest("interval")
    assert out["upper"].is_infinite().all()


# Of 60 rows both are of rank 1, and the first would be rounded to 0.
NEAR_ONE = (1 - 1e-12, 0.99)


@pytest.mark.parametrize("method", ["split", "cv+"])
def test_an_alpha_near_one_is_the_least_score(method: Any) -> None:
    """Proves that rounding the rank leaves no rank 0, which would be the largest score."""
    df, own = table(), {"method": method, "folds": 3}
    near, far = (df.select(tg.conformal("y", *COLUMNS, alpha=alpha, rounds=3, **own)).item() for alpha in NEAR_ONE)
    if method == "split":
        assert near["offset"] == far["offset"]
    else:
        assert df.select(tg.interval(near, *COLUMNS, **own)).equals(df.select(tg.interval(far, *COLUMNS, **own)))


def is_null(conformal: Any) -> bool:
    """Polars 1 has a dictionary of nulls for a struct that is null."""
    return conformal is None or all(value is None for value in conformal.values())


# What is at fault; where it is not in `OF_ROWS` it is a value, and `"constant"` an error too.
FAULTS: dict[str, Any] = {
    "target null": lambda df: put(df, "y", None, 4),
    "target NaN": lambda df: put(df, "y", math.nan, 4),
    "target infinite": lambda df: put(df, "y", math.inf, 5),
    "weight null": lambda df: put(df, "w", None, 4),
    "weight negative": lambda df: put(df, "w", -1.0, 5),
    "weights zero": lambda df: df.with_columns(w=pl.lit(0.0)),
    "mask null": lambda df: put(df, "held", None, 4),
    "mask null in a row of weight 0": lambda df: put(put(df, "held", None, 4), "w", 0.0, 4),
    "none calibrates": lambda df: df.with_columns(held=False),
    "all calibrate": lambda df: df.with_columns(held=True),
    "one row": lambda df: df.head(1),
    "no rows": lambda df: df.head(0),
}
FAULTS_OF_SETS: dict[str, Any] = {
    "label null": lambda df: put(df, "kind", None, 4),
    "another label": lambda df: put(df, "kind", "z", 4),
    "another label fitted": lambda df: put(df, "kind", "z", 5),
    "one label": lambda df: df.with_columns(kind=pl.lit("u")),
    "no row of a label": lambda df: df.with_columns(
        kind=pl.when(pl.col("kind") == "w").then(pl.lit("u")).otherwise("kind")
    ),
}
OF_ROWS = ["weights zero", "none calibrates", "all calibrate", "one row", "no rows", "one label", "no row of a label"]
# Of `"cv+"` all rows calibrate.
OF_CALIBRATION = ["mask null", "mask null in a row of weight 0", "none calibrates", "all calibrate"]
OF_TARGETS = [name for name in FAULTS if name.startswith("target")]
CASES = [(made, fault) for made in INTERVALS for fault in FAULTS if "folds" not in made or fault not in OF_CALIBRATION]
CASES += [(made, fault) for made in SETS for fault in [*FAULTS, *FAULTS_OF_SETS] if fault not in OF_TARGETS]


@pytest.mark.parametrize(("made", "fault"), CASES)
def test_rows_at_fault_may_give_null(made: dict[str, Any], fault: str) -> None:
    """Proves that `on_error="null"` gives a null conformal where the default is an error, of one group among others
    too, and `"constant"` where rows are too few, and that the intervals of it are null.
    """
    sets = "classes" in made
    target, good = "kind" if sets else "y", table()
    if sets and len(made["classes"]) == 2:
        good = good.with_columns(kind=pl.when(pl.col("kind") == "v").then(pl.lit("u")).otherwise("kind"))
    df = {**FAULTS, **FAULTS_OF_SETS}[fault](good)
    with pytest.raises(pl.exceptions.ComputeError):
        df.select(of(made, target, weight="w"))
    call = of(made, target, weight="w", on_error="null")
    assert is_null(df.select(call).item())
    # The other group has what it has alone.
    both = pl.concat([good.with_columns(h=pl.lit(0)), df.with_columns(h=pl.lit(1))])
    fitted = both.group_by("h").agg(call).sort("h")
    assert fitted["conformal"][0] == good.select(call).item() == good.select(of(made, target, weight="w")).item()
    out = both.join(fitted, on="h").with_columns(tg.interval("conformal", *COLUMNS, **made))
    assert out.select((pl.col("interval").is_null() == (pl.col("h") == 1)).all()).item()
    if "folds" not in made:
        constant = df.lazy().select(of(made, target, weight="w", on_error="constant"))
        if fault in OF_ROWS:
            # A model of two labels is told of the second one, which needs no row.
            known = fault in FAULTS_OF_SETS and len(made["classes"]) == 2
            assert is_null(constant.collect().item()) != known
        else:
            with pytest.raises(pl.exceptions.ComputeError):
                constant.collect()


@pytest.mark.parametrize("made", [*INTERVALS, *SETS])
def test_types_and_parameters_are_errors_whatever_becomes_of_rows(made: dict[str, Any]) -> None:
    """Proves that `on_error` is about rows alone, and that a value which it does not have is an error."""
    df, sets = table(), "classes" in made
    target = "kind" if sets else "y"
    with pytest.raises(pl.exceptions.ComputeError, match="a weight is a number"):
        df.select(of(made, target, weight="kind", on_error="null"))
    if not sets:
        # The fit says so too, of quantiles.
        with pytest.raises(pl.exceptions.ComputeError, match=r"column `kind`: its type is (String|str)"):
            df.select(of(made, "kind", on_error="null"))
    wrong = ["ignore", None, *(["constant"] if "folds" in made else [])]
    for value in wrong:
        with pytest.raises(ValueError, match=f"parameter `on_error`: {value!r} is not one of 'raise', 'null'"):
            of(made, target, on_error=value)


def test_a_constant_fit_has_an_interval() -> None:
    """Proves that `on_error="constant"` gives the interval around one prediction for groups that are too small."""
    df = table(6).with_columns(held=pl.int_range(6) < 5)
    with pytest.raises(pl.exceptions.ComputeError, match="a model needs at least two"):
        df.select(of({}, alpha=0.5))
    fitted = df.select(of({}, alpha=0.5, on_error="constant")).item()
    out = df.select(tg.interval(fitted, *COLUMNS), y=df["y"][5]).unnest("interval")
    centre = (out["lower"] + out["upper"]) / 2
    assert centre.to_list() == pytest.approx(out["y"].to_list())
    assert fitted["offset"] == sorted((df["y"][:5] - df["y"][5]).abs())[2]


@pytest.mark.parametrize("made", [*INTERVALS, *SETS])
@pytest.mark.parametrize("null", [pl.lit(None), pl.col("n")])
def test_nothing_but_null_is_a_conformal_that_is_null(made: dict[str, Any], null: pl.Expr) -> None:
    """Proves that a column without a type gives null intervals of the type that is planned, as `predict` does."""
    df = table()
    query = df.lazy().select(tg.interval(null, *COLUMNS, **made))
    out = query.collect()
    assert out.height == df.height == out.to_series().null_count()
    assert query.collect_schema() == out.schema


@pytest.mark.skipif(FIRST, reason="the streaming engine of Polars 1 is another")
@pytest.mark.parametrize(
    "made", [*INTERVALS, {"method": "lac", "classes": LABELS}, {"method": "aps", "classes": LABELS}]
)
@pytest.mark.parametrize("as_column", [False, True])
def test_intervals_of_groups_are_in_the_order_of_rows(made: dict[str, Any], as_column: bool) -> None:
    """Proves that streaming `group_by().agg()` gives a group's intervals and sets in the order of its rows."""
    df = table(3_000)
    call = of(made, "kind" if "classes" in made else "y")
    shown = tg.interval("conformal" if as_column else df.select(call).item(), *COLUMNS, **made)
    rows = df.with_columns(call) if as_column else df
    query = rows.with_columns(one=pl.lit(0)).lazy().group_by("one", maintain_order=True).agg(shown)
    out = query.collect(engine="streaming")["interval"].to_list()[0]
    assert out == rows.select(shown).to_series().to_list()


@pytest.mark.parametrize("method", ["lac", "aps"])
@pytest.mark.parametrize(
    ("dtype", "classes", "of_sets"),
    [
        (pl.Int64, [0, 1, 2], pl.Int64),
        (pl.UInt8, [0, 1, 2], pl.Int64),
        (pl.Float64, [0.0, 1.0, 2.0], pl.Float64),
        (pl.Float64, [0, 1.0, 2], pl.Float64),
        (pl.Decimal(5, 1), [Decimal(0), Decimal(1), Decimal(2)], pl.Decimal(38, 0)),
        (pl.Decimal(5, 1), [Decimal("0.0"), Decimal("1.0"), Decimal("2.00")], pl.Decimal(38, 2)),
    ],
)
def test_labels_that_are_numbers_are_of_the_type_that_polars_gives_them(
    method: Any, dtype: Any, classes: Any, of_sets: Any
) -> None:
    """Proves that labels are known by their value, whatever zeros they are written with, and come in one type."""
    if FIRST and dtype == pl.Decimal:
        pytest.skip("Polars 1 has no unique values of Decimals")
    df = table(200).with_columns(k=pl.col("g").cast(dtype))
    made: dict[str, Any] = {"method": method, "classes": classes}
    call = tg.conformal("k", *COLUMNS, loss="multiclass", rounds=2, **made)
    out = df.select("k", tg.interval(df.select(call).item(), *COLUMNS, **made))
    assert out.schema["interval"] == pl.List(of_sets)
    assert sum(k in labels for k, labels in out.iter_rows()) > 160
    assert df.with_columns(call).select("k", tg.interval("conformal", *COLUMNS, **made)).equals(out)


def test_a_column_of_sets_is_in_the_order_of_its_enum() -> None:
    """Proves that labels in another order than an Enum's are an error that says what to give, and that it works."""
    kind = pl.Enum(LABELS[::-1])
    df = table(200).with_columns(pl.col("kind").cast(kind))
    listed: dict[str, Any] = {"method": "lac", "classes": LABELS}
    call = tg.conformal("kind", *COLUMNS, rounds=2, **listed)
    out = df.select(tg.interval(df.select(call).item(), *COLUMNS, **listed)).to_series()
    typed: dict[str, Any] = {"method": "lac", "classes": kind}
    if FIRST:
        # There an Enum comes to the plugin in the order of its text.
        column = df.with_columns(tg.conformal("kind", *COLUMNS, rounds=2, **typed))
        listed, typed = typed, listed
    else:
        column = df.with_columns(call)
    order = ", ".join(map(repr, LABELS if FIRST else LABELS[::-1]))
    with pytest.raises(pl.exceptions.ComputeError, match=rf"parameter `classes`: .* give pl.Enum\(\[{order}\]\)"):
        column.select(tg.interval("conformal", *COLUMNS, **listed))
    again = df.with_columns(tg.conformal("kind", *COLUMNS, rounds=2, **typed))
    sets = again.select(tg.interval("conformal", *COLUMNS, **typed)).to_series()
    assert sets.list.sort().to_list() == out.list.sort().to_list()


@pytest.mark.parametrize("name", ["^x$", "^.*$", "*"])
@pytest.mark.parametrize("made", INTERVALS)
def test_names_that_are_patterns_are_names(made: dict[str, Any], name: str) -> None:
    """Proves that features, targets, weights and groups may be called as a pattern is written."""
    df, own = table(), {**made, **({"by": pl.col("g").cast(pl.Float64).alias(name)} if "by" in made else {})}
    plain = df.select(of({**made, **({"by": pl.col("g").cast(pl.Float64)} if "by" in made else {})}, weight="w")).item()
    call = tg.conformal(
        pl.col("y").alias(name),
        *COLUMNS,
        weight=pl.col("w").alias(name),
        calibration=0.25 if "folds" in made else pl.col("held").alias(name),
        rounds=2,
        min_child_weight=0,
        **own,
    )
    fitted = df.select(call).item()
    for part in {"offset", "offsets", "residuals"} & set(plain):
        assert fitted[part] == plain[part]
    bounds = df.select(tg.interval(fitted, *COLUMNS, **own)).unnest("interval")
    assert bounds["upper"].is_not_null().all()
    # A selector of Polars 1 reads a name as a pattern.
    if not FIRST:
        strange = df.rename({"a": name})
        made_of = [cs.by_name(name), "b"]
        again = strange.select(tg.conformal("y", *made_of, rounds=2, **made)).item()
        as_a = df.select(tg.conformal("y", *COLUMNS, rounds=2, **made)).item()
        out = strange.select(tg.interval(again, *made_of, **made))
        assert out.equals(df.select(tg.interval(as_a, *COLUMNS, **made)))


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (pl.Date, 95_026_236, 95_026_237),
        (pl.Date, -96_465_292, -96_465_293),
        (pl.Datetime("ms"), 95_026_237 * 86_400_000 - 1, 95_026_237 * 86_400_000),
        (pl.Datetime("ms"), -96_465_292 * 86_400_000, -96_465_292 * 86_400_000 - 1),
        (pl.Datetime("us"), 2**62, 2**63 - 1),
    ],
)
def test_groups_beyond_the_calendar_are_errors(dtype: Any, good: int, bad: int) -> None:
    """Proves that dates which have no text are an error that names their column, where Polars panics."""
    df = table()
    first, last = (
        pl.lit(n).cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype).alias("day") for n in (good, bad)
    )
    fitted = df.with_columns(first).select(of({"by": "day"})).item()
    out = df.with_columns(first).select(tg.interval(fitted, *COLUMNS, by="day")).unnest("interval")
    assert out["upper"].is_finite().all()
    with pytest.raises(
        pl.exceptions.ComputeError, match="conformal: parameter `by`: column `day`: it is beyond the cal"
    ):
        df.with_columns(last).select(of({"by": "day"}))
    with pytest.raises(
        pl.exceptions.ComputeError, match="interval: parameter `by`: column `day`: it is beyond the cal"
    ):
        df.with_columns(last).select(tg.interval(fitted, *COLUMNS, by="day"))
