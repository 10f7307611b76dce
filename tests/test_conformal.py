"""Conformal intervals and sets against naive twins and the share that they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

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
