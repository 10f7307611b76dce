"""Conformal intervals and sets against naive twins and the share that they promise."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from polars_taiga import _plugin

COLUMNS = ("a", "b")
INTERVALS = ["split", "cqr", "cv+"]


def rows(n: int = 1_200, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.normal(size=n)
    y = a * 2 + rng.normal(size=n) * (1 + np.abs(b))
    kind = np.select([y < -1, y < 1], ["u", "v"], "w")
    return pl.DataFrame({"a": a, "b": b, "y": y, "kind": kind, "yes": y > 0, "g": rng.integers(0, 3, n)})


def rank_value(scores: Any, alpha: float) -> float:
    """The naive twin of the offset."""
    ordered = sorted(scores)
    rank = math.ceil(round((len(ordered) + 1) * (1 - alpha), 9))
    return ordered[rank - 1] if rank <= len(ordered) else math.inf


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_split_and_by_are_those_of_naive_twins(alpha: float) -> None:
    df = rows(400).with_columns(held=pl.int_range(400) % 3 == 0)
    given: dict[str, Any] = {"alpha": alpha, "calibration": "held", "rounds": 10}
    fitted = df.select(tg.conformal("y", *COLUMNS, **given)).item()
    # The rows that calibrate are not fitted.
    zero = df.select(tg.fit_gbdt("y", *COLUMNS, weight=pl.when("held").then(0.0).otherwise(1.0), rounds=10)).item()
    assert fitted["model"] == zero
    held = df.filter("held").with_columns(p=tg.predict(zero)).with_columns(r=(pl.col("y") - pl.col("p")).abs())
    assert fitted["offset"] == rank_value(held["r"], alpha)
    out = df.with_columns(tg.interval(fitted, *COLUMNS), p=tg.predict(zero)).unnest("interval")
    assert (out["upper"] - out["p"] - fitted["offset"]).abs().max() < 1e-12  # type: ignore[operator]
    grouped = df.select(tg.conformal("y", *COLUMNS, by="g", **given)).item()
    out = df.with_columns(tg.interval(grouped, *COLUMNS, by="g"), p=tg.predict(zero)).unnest("interval")
    for (g,), part in held.group_by("g"):
        width = out.filter(g=g).select(pl.col("upper") - pl.col("p")).to_series()
        assert width.to_list() == pytest.approx([rank_value(part["r"], alpha)] * len(width), abs=1e-12)
    new = (
        df.with_columns(g=pl.lit(None, dtype=pl.Int64))
        .select(tg.interval(grouped, *COLUMNS, by="g"))
        .unnest("interval")
    )
    assert new["upper"].is_infinite().all()


def test_cv_plus_is_its_naive_twin() -> None:
    df, alpha, folds = rows(150), 0.1, 3
    fitted = df.select(tg.conformal("y", *COLUMNS, method="cv+", folds=folds, rounds=10, alpha=alpha)).item()
    by_row = df.select(tg.fit_folds("y", *COLUMNS, folds=folds, rounds=10)).unnest("folds")
    own = df.with_columns(by_row, p=tg.cross_val_predict("y", *COLUMNS, folds=folds, rounds=10))
    residual = (own["y"] - own["p"]).abs().to_numpy()
    test = rows(40, seed=1)
    centres = np.stack([test.select(tg.predict(fitted[f"model_{k}"])).to_series().to_numpy() for k in range(folds)])
    out = test.select(tg.interval(fitted, *COLUMNS, method="cv+", folds=folds, alpha=alpha)).unnest("interval")
    for i in range(test.height):
        centre = centres[own["fold"].to_numpy(), i]
        assert out["upper"][i] == pytest.approx(rank_value(centre + residual, alpha), abs=1e-9)
        assert out["lower"][i] == pytest.approx(-rank_value(-centre + residual, alpha), abs=1e-9)


@pytest.mark.parametrize("method", INTERVALS)
def test_intervals_keep_their_share_whatever_the_chunks_and_engine(method: Any) -> None:
    seen = []
    for seed in range(6):
        train, test = rows(seed=2 * seed), rows(seed=2 * seed + 1)
        call = tg.conformal("y", *COLUMNS, method=method, rounds=30, n_threads=1)
        fitted = train.select(call).item()
        query = test.with_columns(tg.interval(fitted, *COLUMNS, method=method)).unnest("interval")
        seen.append(query.select(pl.col("y").is_between("lower", "upper").mean()).item())
    assert np.mean(seen) == pytest.approx(0.9, abs=0.025)
    chunks = pl.concat([train[:7], train[7:700], train[700:]], rechunk=False)
    assert chunks.lazy().select(call).collect().item() == fitted
    streamed = (
        pl.concat([test[:5], test[5:]], rechunk=False).lazy().select(tg.interval(fitted, *COLUMNS, method=method))
    )
    assert streamed.collect().unnest("interval").equals(query.select("lower", "upper"))


@pytest.mark.parametrize("method", ["aps", "lac"])
@pytest.mark.parametrize(("target", "classes"), [("kind", ["w", "u", "v"]), ("yes", [False, True])])
def test_sets_keep_their_share(method: Any, target: str, classes: list[object]) -> None:
    seen = []
    for seed in range(6):
        train, test = rows(seed=2 * seed), rows(seed=2 * seed + 1)
        fitted = train.select(tg.conformal(target, *COLUMNS, method=method, classes=classes, rounds=20)).item()
        out = test.with_columns(tg.interval(fitted, *COLUMNS, method=method, classes=classes))
        seen.append(out.select(pl.col("interval").list.contains(pl.col(target)).mean()).item())
    assert np.mean(seen) == pytest.approx(0.9, abs=0.025)
    assert out.schema["interval"] == pl.List(train.schema[target])


@pytest.mark.parametrize("method", INTERVALS)
def test_a_conformal_for_each_group_is_that_of_its_rows(method: Any) -> None:
    df = rows(300).with_row_index().with_columns(held=pl.int_range(300) % 4 == 0)
    # In groups the first Polars has no names for what is counted, so a share is for later ones.
    share: Any = "held" if pl.__version__.startswith("1.") else 0.25
    call = tg.conformal("y", *COLUMNS, method=method, folds=3, calibration=share, rounds=5)
    fitted = df.group_by("g").agg(call)
    shown = tg.interval("conformal", *COLUMNS, method=method, folds=3)
    out = df.join(fitted, on="g", how="left").with_columns(shown).sort("index")
    for g in range(3):
        own = df.filter(g=g)
        one = own.select(call).item()
        assert fitted.filter(g=g)["conformal"].item() == one
        alone = own.select(tg.interval(one, *COLUMNS, method=method, folds=3)).to_series()
        assert out.filter(g=g)["interval"].equals(alone)
    nobody = df.with_columns(conformal=pl.lit(None, dtype=fitted.schema["conformal"])).select(shown).unnest("interval")
    assert nobody["lower"].null_count() == df.height


def test_few_rows_give_infinite_intervals() -> None:
    df = rows(12)
    for method in ("split", "cv+"):
        fitted = df.select(tg.conformal("y", *COLUMNS, method=method, folds=2, alpha=0.01, rounds=2)).item()
        out = df.select(tg.interval(fitted, *COLUMNS, method=method, folds=2, alpha=0.01)).unnest("interval")
        assert out["upper"].is_infinite().all()
        assert (out["lower"] < 0).all()


def test_all_equal_targets_give_intervals_of_no_width() -> None:
    df = rows(100).with_columns(y=pl.lit(3.0))
    fitted = df.select(tg.conformal("y", *COLUMNS, rounds=2)).item()
    assert fitted["offset"] == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"alpha": 0}, "parameter `alpha`: 0 is not between"),
        ({"alpha": "x"}, "parameter `alpha`: 'x' is no number"),
        ({"method": "jackknife"}, "parameter `method`: 'jackknife' is not one of"),
        ({"method": "aps"}, "needs the labels"),
        ({"method": "lac", "classes": ["a", "a"]}, "needs the labels"),
        ({"classes": ["a", "b"]}, "parameter `classes`: it is for"),
        ({"method": "cv+", "by": "g"}, "parameter `by`: not of"),
        ({"method": "cv+", "folds": 1}, "parameter `folds`: 1 is not"),
        ({"method": "cqr", "loss": "rmse"}, "parameter `loss`"),
        ({"calibration": 1.5}, "parameter `calibration`: 1.5 is not between"),
        ({"method": "aps", "classes": "ab"}, "parameter `classes`: .ab. is no list"),
        ({"calibration": None}, "parameter `calibration`: None is neither"),
        ({"depht": 3}, "depth"),
    ],
)
def test_wrong_parameters_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        tg.conformal("y", *COLUMNS, **given)


def test_wrong_rows_and_conformals_are_errors() -> None:
    df = rows(100)
    held = df.with_columns(y=pl.when(pl.int_range(100) == 4).then(math.nan).otherwise("y"), held=pl.int_range(100) < 50)
    with pytest.raises(pl.exceptions.ComputeError, match="column `y`"):
        held.select(tg.conformal("y", *COLUMNS, calibration="held", rounds=2))
    with pytest.raises(pl.exceptions.ComputeError):
        df.select(tg.conformal("kind", *COLUMNS, method="lac", classes=["u", "v", "x"], rounds=2))
    fitted = df.select(tg.conformal("y", *COLUMNS, rounds=2)).item()
    with pytest.raises(ValueError, match="this conformal has the fields model, offset"):
        tg.interval(fitted, *COLUMNS, by="g")
    with pytest.raises(TypeError, match="a conformal is a dictionary"):
        tg.interval(3, *COLUMNS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name the features"):
        tg.interval(fitted)
    with pytest.raises(ValueError, match="parameter `folds`: 'x' is not a whole number"):
        tg.interval(fitted, *COLUMNS, folds="x")  # type: ignore[arg-type]


LABELS = ["u", "v", "w"]
# What is given to `conformal`, what to `interval` instead, and the parameter that the error names.
MISTAKEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"method": "lac", "classes": LABELS}, {"method": "aps", "classes": LABELS}, "`method`: it is 'aps'.*method='lac'"),
    ({"method": "aps", "classes": LABELS}, {"method": "lac", "classes": LABELS}, "`method`: it is 'lac'.*method='aps'"),
    ({"method": "aps", "classes": LABELS}, {}, "`method`: it is 'split'.*method='aps'"),
    ({"method": "lac", "classes": LABELS}, {"method": "lac", "classes": LABELS[:2]}, "`classes`: it is .*by classes="),
    ({"method": "cqr"}, {}, "`method`: it is 'split'.*method='cqr'"),
    ({}, {"method": "cqr"}, "`method`: it is 'cqr'.*method='split'"),
    ({"method": "cv+", "folds": 3}, {}, "`method`: it is 'split'.*method='cv\\+'"),
    ({"method": "cv+", "folds": 3}, {"method": "cv+", "folds": 2}, "`folds`: it is 2.*folds=3"),
    ({"alpha": 0.2}, {"alpha": 0.1}, "`alpha`: it is 0.1.*alpha=0.2"),
    ({"alpha": 0.2, "by": "g"}, {"alpha": 0.1, "by": "g"}, "`alpha`: it is 0.1.*alpha=0.2"),
    ({"method": "cqr", "alpha": 0.2}, {"method": "cqr", "alpha": 0.3}, "`alpha`: it is 0.3.*alpha=0.2"),
]


@pytest.mark.parametrize(("made", "given", "text"), MISTAKEN)
def test_an_interval_by_other_parameters_than_its_conformal_is_an_error(
    made: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    """Proves that a dictionary, a column and an expression are each held to how they were made, in both engines."""
    df = rows(200)
    call = tg.conformal("kind" if "classes" in made else "y", *COLUMNS, rounds=2, **made)
    with pytest.raises(ValueError, match=text):
        tg.interval(df.select(call).item(), *COLUMNS, **given)
    column = df.with_columns(call).lazy().select(tg.interval("conformal", *COLUMNS, **given))
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        column.collect()
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.select(tg.interval(call, *COLUMNS, **given))
    # What was given is taken.
    assert df.with_columns(call).select(tg.interval("conformal", *COLUMNS, **made)).height == df.height


@pytest.mark.parametrize("method", INTERVALS)
def test_alpha_is_by_default_that_of_the_conformal(method: Any) -> None:
    """Proves that an `alpha` which `interval` is not given is that of `conformal`, or an error where it can't be."""
    df, own = rows(200), {"method": method, "folds": 3}
    call = tg.conformal("y", *COLUMNS, alpha=0.3, rounds=2, **own)
    fitted = df.select(call).item()
    assert (fitted["method"], fitted["alpha"]) == (method, 0.3)
    said = df.select(tg.interval(fitted, *COLUMNS, alpha=0.3, **own))
    assert df.select(tg.interval(fitted, *COLUMNS, **own)).equals(said)
    column = df.with_columns(call)
    assert column.select(tg.interval("conformal", *COLUMNS, alpha=0.3, **own)).equals(said)
    if method == "split":
        assert column.select(tg.interval("conformal", *COLUMNS, **own)).equals(said)
    else:
        with pytest.raises(pl.exceptions.ComputeError, match=r"`alpha`: it is 0.1, and this .* by alpha=0.3"):
            column.select(tg.interval("conformal", *COLUMNS, **own))
    if method == "cv+":
        wider = df.select(tg.interval(fitted, *COLUMNS, alpha=0.05, **own)).unnest("interval")
        assert (wider["upper"] >= said.unnest("interval")["upper"]).all()


def test_the_schema_that_is_planned_is_the_one_that_comes() -> None:
    """Proves that each conformal's planned type is its type, of all rows and of groups."""
    df = rows(200).with_columns(held=pl.int_range(200) % 4 == 0)
    for made in ({}, {"by": "g"}, {"method": "cv+", "folds": 3}, {"method": "lac", "classes": LABELS}):
        target, more = "kind" if "classes" in made else "y", {} if "folds" in made else {"calibration": "held"}
        call = tg.conformal(target, *COLUMNS, rounds=2, **made, **more)  # type: ignore[arg-type]
        queries = [df.lazy().select(call)]
        # The first Polars plans a list of each value of a group.
        if not pl.__version__.startswith("1."):
            queries.append(df.lazy().group_by("g").agg(call))
        for query in queries:
            assert query.collect_schema() == query.collect().schema


def test_conformals_of_earlier_versions_are_used() -> None:
    """Proves that structs without method, alpha, seals and types give the intervals that they gave."""
    df = rows(200)
    for made in ({}, {"by": "g"}, {"method": "cv+", "folds": 3}, {"method": "cqr"}):
        fitted = df.select(tg.conformal("y", *COLUMNS, rounds=2, **made)).item()  # type: ignore[arg-type]
        old = {name: value for name, value in fitted.items() if name not in ("method", "alpha")}
        for name in {"residuals", "offsets"} & set(old):
            old[name] = old[name][20:-4]
        if "offsets" in old:
            old["offsets"] = json.dumps(json.loads(old["offsets"])["offsets"]).encode()
        new = df.select(tg.interval(fitted, *COLUMNS, **made))  # type: ignore[arg-type]
        assert df.select(tg.interval(old, *COLUMNS, **made)).equals(new)  # type: ignore[arg-type]
        types = {n: pl.Float64 if n == "offset" else pl.Binary for n in old}
        column = df.with_columns(pl.struct(pl.lit(old[n], dtype=types[n]).alias(n) for n in old).alias("old"))
        assert column.select(tg.interval("old", *COLUMNS, **made)).equals(new)  # type: ignore[arg-type]


def with_field(df: pl.DataFrame, fitted: dict[str, Any], name: str, value: Any) -> pl.DataFrame:
    """The rows with a column of conformals that has another value in one field."""
    types = {"offset": pl.Float64, "alpha": pl.Float64, "method": pl.String}
    fields = {**fitted, name: value}
    return df.with_columns(
        pl.struct(pl.lit(v, dtype=types.get(n, pl.Binary)).alias(n) for n, v in fields.items()).alias("conformal")
    )


@pytest.mark.parametrize(("name", "made"), [("residuals", {"method": "cv+", "folds": 3}), ("offsets", {"by": "g"})])
def test_damaged_bytes_are_errors(name: str, made: dict[str, Any]) -> None:
    """Proves that every cut and every changed bit is seen, in a dictionary and in a column."""
    df = rows(30)
    fitted = df.select(tg.conformal("y", *COLUMNS, rounds=1, **made)).item()
    whole = fitted[name]
    cuts = [whole[:n] for n in range(len(whole))]
    flips = [whole[: i // 8] + bytes([whole[i // 8] ^ 1 << i % 8]) + whole[i // 8 + 1 :] for i in range(len(whole) * 8)]
    for value in [*cuts, *flips, whole + b"0", whole + bytes(8), b"{}", b"[1]", b'["ab"]', bytes(8), bytes(64)]:
        with pytest.raises(ValueError, match=f"interval: this conformal is damaged: its `{name}`"):
            tg.interval({**fitted, name: value}, *COLUMNS, **made)
    for value in [cuts[0], cuts[20], cuts[-1], flips[0], flips[200]]:
        with pytest.raises(pl.exceptions.ComputeError, match=f"interval: this conformal is damaged: its `{name}`"):
            with_field(df, fitted, name, value).select(tg.interval("conformal", *COLUMNS, **made))


@pytest.mark.parametrize("made", [{"method": "cv+", "folds": 2}, {"by": "g"}])
def test_what_no_seal_covers_is_checked_too(made: dict[str, Any]) -> None:
    """Proves that bytes of earlier versions, which have no checksum, hold together or are errors."""
    df = rows(30)
    fitted = df.select(tg.conformal("y", *COLUMNS, rounds=1, **made)).item()
    if "folds" in made:
        name = "residuals"
        wrong = [
            struct.pack(f"<{len(numbers)}d", *numbers)
            for numbers in (
                [3.0, 1.0, 1.0, 0.5, 0.5],
                [2.0, 1.0],
                [2.0, 1.0, 2.0, 0.5, 0.5],
                [2.0, 1.0, 1.0, -0.5, 0.5],
                [2.0, 1.0, 1.0, math.nan, 0.5],
                [2.0, 2.0, 0.0, 0.6, 0.5],
                [2.0, 1.5, 0.5, 0.6, 0.5],
                [2.0, math.inf, 0.0, 0.6, 0.5],
                [math.nan, 1.0, 1.0, 0.6, 0.5],
            )
        ]
    else:
        name = "offsets"
        wrong = [
            b'[["0", NaN]]',
            b'[["0", -1]]',
            b'[["0", "1"]]',
            b'[["0", true]]',
            b"[[0, 1]]",
            b'[[["0"], 1]]',
            b'[["0", 1], ["0", 2]]',
            b'{"type": 1, "offsets": []}',
            b'[["0", 1%s]]' % (b"0" * 400),
            b"[" * 100_000,
            b"\xff",
        ]
    for value in wrong:
        with pytest.raises(ValueError, match=f"interval: this conformal is damaged: its `{name}`"):
            tg.interval({**fitted, name: value}, *COLUMNS, **made)


@pytest.mark.parametrize("value", [-1.0, math.nan, -math.inf, None])
def test_an_offset_is_a_distance(value: float | None) -> None:
    """Proves that no offset gives an upper bound below the lower one; only that of quantiles may be negative."""
    df = rows(100)
    fitted = df.select(tg.conformal("y", *COLUMNS, rounds=2)).item()
    with pytest.raises(ValueError, match="interval: this conformal is damaged: its `offset`"):
        tg.interval({**fitted, "offset": value}, *COLUMNS)
    with pytest.raises(pl.exceptions.ComputeError, match="interval: this conformal is damaged: its `offset`"):
        with_field(df, fitted, "offset", value).select(tg.interval("conformal", *COLUMNS))
    quantiles = df.select(tg.conformal("y", *COLUMNS, method="cqr", rounds=2)).item()
    moved = tg.interval({**quantiles, "offset": -1.0}, *COLUMNS, method="cqr")
    assert df.select(moved).unnest("interval").select((pl.col("lower") <= pl.col("upper")).all()).item()


@pytest.mark.parametrize("value", [None, "text", 3])
def test_fields_of_other_types_are_errors(value: Any) -> None:
    """Proves that a dictionary's fields are looked at before they are used."""
    fitted = rows(100).select(tg.conformal("y", *COLUMNS, by="g", rounds=2)).item()
    for name in ("model", "offsets"):
        with pytest.raises(ValueError, match=f"interval: this conformal is damaged: its `{name}` is no bytes"):
            tg.interval({**fitted, name: value}, *COLUMNS, by="g")
    df = rows(100)
    with pytest.raises(pl.exceptions.ComputeError, match="interval: column `a`: its type is Float64; a conformal is"):
        df.select(tg.interval("a", *COLUMNS))


def test_groups_of_another_type_are_errors() -> None:
    """Proves that keys are compared as what they are, not as text; widths of integers and types of text are one."""
    df = rows(200).with_columns(t=pl.col("g").cast(pl.String))
    whole = df.select(tg.conformal("y", *COLUMNS, by="g", rounds=2)).item()
    text = df.select(tg.conformal("y", *COLUMNS, by="t", rounds=2)).item()
    own = df.select(tg.interval(whole, *COLUMNS, by="g"))
    assert own.unnest("interval")["upper"].is_finite().all()
    for dtype in (pl.Int8, pl.UInt32):
        assert df.select(tg.interval(whole, *COLUMNS, by=pl.col("g").cast(dtype))).equals(own)
    assert df.select(tg.interval(text, *COLUMNS, by=pl.col("t").cast(pl.Categorical))).equals(own)
    for fitted, dtype, saw in ((whole, pl.Float64, "Int64"), (whole, pl.String, "Int64"), (text, pl.Int64, "String")):
        found = f"interval: parameter `by`: column `.`: its type is {dtype}, and tg.conformal saw {saw}"
        key = pl.col("g" if saw == "Int64" else "t").cast(dtype)
        with pytest.raises(pl.exceptions.ComputeError, match=found):
            df.select(tg.interval(fitted, *COLUMNS, by=key))
        column = df.with_columns(tg.conformal("y", *COLUMNS, by="g" if saw == "Int64" else "t", rounds=2))
        with pytest.raises(pl.exceptions.ComputeError, match=found):
            column.select(tg.interval("conformal", *COLUMNS, by=key))
    with pytest.raises(pl.exceptions.ComputeError, match="conformal: parameter `by`: column `a`: its type is List"):
        df.select(tg.conformal("y", *COLUMNS, by=pl.concat_list("a"), rounds=2))


@pytest.mark.parametrize(
    ("target", "given", "text"),
    [
        ("kind", {}, 'conformal: column `kind`: its type is String; .*method="aps" or "lac"'),
        ("kind", {"method": "cv+"}, 'conformal: column `kind`: its type is String; .*method="aps" or "lac"'),
        ("y", {"calibration": pl.lit(True)}, "conformal: parameter `calibration`: all rows calibrate"),
        ("y", {"calibration": pl.lit(False)}, "conformal: parameter `calibration`: no row calibrates"),
        ("y", {"calibration": "g"}, "conformal: parameter `calibration`: column `g`: its type is Int64"),
        ("y", {"calibration": "held", "weight": "gone"}, "column `gone`: all training rows weigh zero"),
        ("kind", {"method": "lac", "classes": ["u", "v"]}, "conformal: column `kind`: it is 'w' in some row"),
    ],
)
def test_errors_of_rows_name_what_the_user_gave(target: str, given: dict[str, Any], text: str) -> None:
    """Proves that no error is about a function, a parameter or a column that the call does not have."""
    df = rows(100).with_columns(held=pl.int_range(100) % 4 == 0, gone=pl.lit(0.0))
    # Which of two errors comes first is open in Polars 1, where the fit can't read what is checked.
    if pl.__version__.startswith("1.") and "calibration" in given:
        text = "`calibration`|column `g`|column `gone`"
    with pytest.raises(pl.exceptions.ComputeError, match=text) as raised:
        df.select(tg.conformal(target, *COLUMNS, rounds=2, **given))
    first = str(raised.value).split("\n")[0]
    assert "metrics." not in first
    assert "literal" not in first
    assert "`positive`" not in first


def test_labels_that_are_numbers_need_their_loss() -> None:
    """Proves that sets of whole numbers say which loss they need, and work by it."""
    df = rows(200)
    for classes, loss in (([0, 1, 2], "multiclass"), ([0, 1], "logloss")):
        own = df.with_columns(k=pl.col("g").clip(0, len(classes) - 1))
        with pytest.raises(ValueError, match=f'parameter `classes`: numbers are labels under loss="{loss}"'):
            tg.conformal("k", *COLUMNS, method="lac", classes=classes)
        made: dict[str, Any] = {"method": "lac", "classes": classes}
        fitted = own.select(tg.conformal("k", *COLUMNS, loss=loss, rounds=2, **made)).item()
        sets = own.with_columns(tg.interval(fitted, *COLUMNS, **made))
        assert sets.select(pl.col("interval").list.contains(pl.col("k")).mean()).item() > 0.8


def test_errors_in_python_are_of_classes_that_polars_can_make() -> None:
    """Proves that an error whose class takes more than a text comes through Polars with its own text."""

    @_plugin.compute_errors("interval")
    def failing(column: pl.Series) -> pl.Series:
        fault = {0: ValueError("no"), 1: KeyError("gone"), 2: json.JSONDecodeError("no JSON", "", 0)}
        if (number := column[0]) in fault:
            raise fault[number]
        bytes([number]).decode()
        return column

    for number, text in enumerate(["interval: no", "KeyError: 'gone'", "no JSON: line 1"]):
        df = pl.DataFrame({"x": [number]})
        with pytest.raises(pl.exceptions.ComputeError, match=text):
            df.select(pl.col("x").map_batches(lambda x: failing(x), return_dtype=pl.Int64, is_elementwise=True))
    with pytest.raises(pl.exceptions.ComputeError, match="interval: 'utf-8' codec can't decode"):
        pl.select(pl.lit(255).map_batches(lambda x: failing(x), return_dtype=pl.Int64, is_elementwise=True))


def test_a_feature_may_be_called_as_what_is_given_to_the_fit() -> None:
    """Proves that no name of a column is taken by the parts of a conformal."""
    df = rows(100)
    one = df.select(tg.conformal("y", "a", "b", rounds=2)).item()
    for name in ("calibration", "mask", "counts", "model", "method", "group", "__y", "__fold", "__model", "score"):
        other = df.rename({"a": name})
        got = other.select(tg.conformal("y", name, "b", rounds=2)).item()
        assert got["offset"] == one["offset"]
        held = other.with_columns(tg.conformal("y", name, "b", rounds=2))
        assert held.select(tg.interval("conformal", name, "b")).equals(df.select(tg.interval(one, "a", "b")))


@pytest.mark.parametrize("method", [*INTERVALS, "aps", "lac"])
def test_names_of_features_and_labels_do_not_show(method: Any) -> None:
    """Proves that neither a name that something inside could have, nor one that reads as a pattern, changes a bound."""
    sets = method in ("aps", "lac")
    df = rows(150)
    target, given = ("kind", {"classes": ["u", "v", "w"]}) if sets else ("y", {})
    made = df.select(tg.conformal(target, "a", "b", method=method, rounds=3, **given)).item()
    plain = df.select(tg.interval(made, "a", "b", method=method, **given)).to_series()
    # None of Polars' methods of a Series may read it as a pattern of names.
    labels = {"u": "^.*$", "v": "^a$", "w": "w"}
    strange = df.with_columns(kind=pl.col("kind").replace_strict(labels, return_dtype=pl.String))
    # The order of labels is what ties are broken by.
    given = {"classes": list(labels.values())} if sets else {}
    for names in (("__y", "__fold"), ("__model", "__score")):
        other = strange.rename(dict(zip(("a", "b"), names, strict=True)))
        again = other.select(tg.conformal(target, *names, method=method, rounds=3, **given)).item()
        got = other.select(tg.interval(again, *names, method=method, **given)).to_series()
        if sets:
            got = got.list.eval(pl.element().replace_strict({to: of for of, to in labels.items()}))
        assert got.to_list() == plain.to_list()


@pytest.mark.parametrize("method", [*INTERVALS, "aps", "lac"])
def test_rows_with_keys_come_in_any_order(method: Any) -> None:
    """Proves that a conformal of rows that have keys is one of their set: the rows that calibrate are drawn by keys."""
    sets = method in ("aps", "lac")
    target, given = ("kind", {"classes": ["u", "v", "w"]}) if sets else ("y", {})
    df = rows(300).with_row_index("id")
    expr = tg.conformal(target, "a", "b", method=method, rounds=3, row_key="id", **given)
    made = df.select(expr).item()
    for seed in (1, 2):
        assert df.sample(fraction=1, shuffle=True, seed=seed).select(expr).item() == made
    # Which are drawn is by chance, the number of them not.
    if method == "split":
        twice = df.with_columns(id=0)
        with pytest.raises(pl.exceptions.ComputeError, match="column `id`: a `row_key` is another in each row"):
            twice.select(expr)
        drawn = df.with_columns(held=tg.row_key_order("id") >= 0)
        assert drawn["held"].all()


def test_what_says_which_rows_calibrate_is_never_null() -> None:
    df = rows(100).with_columns(held=pl.when(pl.col("g") != 1).then(pl.col("g") == 0))
    nulls = df["held"].null_count()
    with pytest.raises(
        pl.exceptions.ComputeError,
        match=f"conformal: parameter `calibration`: column `held`: it is null in {nulls} of 100 rows",
    ):
        df.select(tg.conformal("y", "a", calibration="held", rounds=2))


def test_both_zeros_are_one_group() -> None:
    df = rows(200).with_columns(g=pl.when(pl.int_range(200) % 2 == 0).then(0.0).otherwise(-0.0))
    one = df.with_columns(g=0.0).select(tg.conformal("y", "a", "b", by="g", rounds=3)).item()
    made = df.select(tg.conformal("y", "a", "b", by="g", rounds=3)).item()
    assert made == one
    out = df.select("g", tg.interval(made, "a", "b", by="g")).unnest("interval")
    assert out["upper"].is_finite().all()
