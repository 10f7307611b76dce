"""Position bias in ranking: `position=`, against simulated clicks, LightGBM's `position`, and NumPy."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from polars.exceptions import ComputeError
from polars_taiga.sklearn import GbdtRanker

PLACES = 10
# How likely it is that a user looks at a position at all.
EXAMINED = 1 / (1 + np.arange(PLACES))


def simulated(lists: int, seed: int) -> pl.DataFrame:
    """Documents in the order of a poor ranking that sees `shown` best, and clicks on what is looked at and relevant."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(lists, PLACES, 3))
    quality = x[..., 0] + 0.5 * x[..., 1]
    order = np.argsort(-(x[..., 2] + 0.3 * quality), axis=1)
    x, quality = np.take_along_axis(x, order[..., None], axis=1), np.take_along_axis(quality, order, axis=1)
    relevant = 0.3 / (1 + np.exp(-2 * quality))
    click = rng.random(quality.shape) < relevant * EXAMINED
    return pl.DataFrame(x.reshape(-1, 3), schema=["a", "b", "shown"]).with_columns(
        relevant=pl.Series(relevant.ravel()),
        click=pl.Series(click.ravel().astype(float)),
        list=pl.Series(np.repeat(np.arange(lists), PLACES)),
        rank=pl.Series(np.tile(np.arange(1, PLACES + 1), lists)),
    )


@pytest.fixture(scope="module")
def clicks() -> pl.DataFrame:
    return simulated(6000, 0)


def scores(df: pl.DataFrame, model: Any) -> np.ndarray:
    return df.select(tg.predict(model)).to_series().to_numpy()


def ndcg(df: pl.DataFrame, s: np.ndarray) -> float:
    """The mean over lists, by how relevant documents really are."""
    gains = df["relevant"].to_numpy().reshape(-1, PLACES)
    discount = 1 / np.log2(np.arange(PLACES) + 2)
    found = np.take_along_axis(gains, np.argsort(-s.reshape(-1, PLACES), axis=1), axis=1)
    return float(np.mean(found @ discount / (-np.sort(-gains, axis=1) @ discount)))


@pytest.mark.parametrize("loss", ["lambdarank", "pairwise", "xendcg", "yetirank"])
def test_simulated_clicks_are_unbiased(clicks: pl.DataFrame, loss: Any) -> None:
    """With the positions the learned order is nearer to the true one, most of what the bias costs is won back, and
    factors are near the logarithms of what was looked at.
    """
    test = simulated(3000, 1)
    params: dict[str, Any] = {"group": "list", "loss": loss, "rounds": 60, "depth": 4, "rank_normalize": False}
    features = ["a", "b", "shown"]
    biased = clicks.taiga.fit_gbdt("click", features, **params)
    unbiased = clicks.taiga.fit_gbdt("click", features, position="rank", **params)
    # What could be learned where users look at everything.
    fair = clicks.with_columns(click=pl.Series(np.random.default_rng(2).random(clicks.height)) < pl.col("relevant"))
    ideal = fair.with_columns(pl.col("click").cast(float)).taiga.fit_gbdt("click", features, **params)
    of_biased, of_unbiased, of_ideal = (ndcg(test, scores(test, m)) for m in (biased, unbiased, ideal))
    assert of_biased < of_unbiased
    assert of_ideal - of_unbiased < 0.5 * (of_ideal - of_biased)
    found = unbiased.position_factors
    assert found["position"].to_list() == list(range(1, PLACES + 1))
    assert found["factor"].arg_max() == 0
    # Of xendcg even a row without a click is wanted: its odds, and its factors, are nearer to each other.
    if loss == "xendcg":
        return
    gap = (found["factor"] - found["factor"][0]).to_numpy() - np.log(EXAMINED)
    assert np.abs(gap).max() < 0.5
    assert biased.position_factors.height == 0
    assert "position_factors" not in unbiased.params


class Messages:
    """What LightGBM says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines += text.splitlines()

    warning = info

    def factors(self) -> dict[int, float]:
        """Those of the last step, by position."""
        words = [line.replace("[LightGBM] [Debug]", "").split() for line in self.lines]
        pairs = [w for w in words if len(w) == 2 and w[0].isdigit()]
        return {int(position): float(factor) for position, factor in pairs}


@pytest.mark.parametrize("l2", [0.0, 0.02])
@pytest.mark.parametrize("rounds", [1, 20])
def test_factors_are_lightgbms(clicks: pl.DataFrame, l2: float, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a round they are the same; after more rounds trees have differed a little."""
    few = clicks.head(3000 * PLACES)
    heard = Messages()
    monkeypatch.setattr(lgb.basic, "_LOGGER", heard)
    monkeypatch.setattr(lgb.basic, "_INFO_METHOD_NAME", "info")
    monkeypatch.setattr(lgb.basic, "_WARNING_METHOD_NAME", "warning")
    sizes = np.full(few.height // PLACES, PLACES)
    params = {
        "objective": "lambdarank",
        "num_leaves": 8,
        "learning_rate": 0.2,
        "lambdarank_position_bias_regularization": l2,
        "lambda_l2": 1.0,
        "verbosity": 2,
        "num_threads": 1,
    }
    x = few.select("a", "b", "shown").to_numpy()
    data = lgb.Dataset(x, few["click"].to_numpy(), group=sizes, position=few["rank"].to_numpy(), params=params)
    lgb.train(params, data, num_boost_round=rounds)
    theirs = heard.factors()
    model = few.taiga.fit_gbdt(
        "click", "a", "b", "shown", group="list", position="rank", loss="lambdarank", policy="leafwise", leaves=8,
        learning_rate=0.2, rounds=rounds, rank_position_l2=l2,
    )  # fmt: skip
    ours = dict(model.position_factors.iter_rows())
    assert ours.keys() == theirs.keys()
    apart = max(abs(ours[k] - theirs[k]) for k in ours)
    assert apart < (1e-5 if rounds == 1 else 0.06) * max(map(abs, theirs.values()))


def test_factors_are_numpys(clicks: pl.DataFrame) -> None:
    """Scores before each round are those of the rounds before it; pairs are taken one by one, in f64."""
    few = clicks.head(120 * PLACES)
    model = few.taiga.fit_gbdt(
        "click", "a", "b", group="list", position="rank", loss="pairwise", rank_normalize=False, rounds=15
    )
    stages = np.array(few.select(tg.predict(model, output="staged")).to_series().to_list())
    before = np.column_stack([np.zeros(few.height), stages[:, :-1]]).reshape(-1, PLACES, 15)
    clicked = few["click"].to_numpy().reshape(-1, PLACES)
    factors = np.zeros(PLACES)
    for stage in range(15):
        s = before[..., stage] + factors
        right = 1 / (1 + np.exp(s[:, None, :] - s[:, :, None]))
        gap = np.sign(clicked[:, :, None] - clicked[:, None, :])
        slope = np.where(gap > 0, 1 - right, np.where(gap < 0, -right, 0)).sum(axis=(0, 2))
        curvature = (np.abs(gap) * right * (1 - right)).sum(axis=(0, 2))
        factors += 0.1 * slope / (curvature + 0.001)
    np.testing.assert_allclose(model.position_factors["factor"].to_numpy(), factors, atol=1e-4)


def test_types_chunks_and_threads_change_nothing(clicks: pl.DataFrame) -> None:
    few = clicks.head(20_000)

    def fit(frame: pl.DataFrame, **more: Any) -> tg.Model:
        return frame.taiga.fit_gbdt(
            "click", "a", "b", "shown", group="list", position="rank", loss="lambdarank", rounds=5, **more
        )

    model = fit(few)
    parts = pl.concat([few.head(333), few.slice(333, 5000), few.slice(5333)], rechunk=False)
    assert all(fit(few, n_threads=n) == model for n in (1, 2, 3))
    assert fit(parts) == model
    assert fit(few.with_columns(pl.col("rank").cast(pl.UInt8))) == model
    assert fit(few.lazy().collect(engine="streaming")) == model
    named = few.with_columns(pl.format("place {}", "rank").alias("rank"))
    for other in (named, named.with_columns(pl.col("rank").cast(pl.Categorical))):
        found = fit(other).position_factors
        assert found["position"].to_list() == sorted(f"place {k}" for k in range(1, PLACES + 1))
        by_name = {f"place {k}": factor for k, factor in model.position_factors.iter_rows()}
        assert dict(found.iter_rows()) == by_name
    assert tg.Model.from_json(model.to_json()) == model
    assert tg.Model.from_json(model.to_json()).position_factors.equals(model.position_factors)
    assert model.head(2).position_factors.height == 0


def test_errors_name_the_parameter(clicks: pl.DataFrame) -> None:
    def fault(frame: pl.DataFrame = clicks, error: type = ComputeError, **arguments: Any) -> str:
        arguments = {"loss": "lambdarank", "group": "list", "position": "rank", "rounds": 2, **arguments}
        with pytest.raises(error) as raised:
            frame.select(tg.fit_gbdt("click", "a", "b", **arguments))
        return str(raised.value)

    assert "`position`" in fault(loss="rmse")
    assert '"lambdarank"' in fault(loss="auto")
    assert "`group`" in fault(group=None)
    nulls = clicks.with_columns(rank=pl.when(pl.col("rank") != 3).then("rank"))
    assert "the `position` is null in 6000 of 60000 rows" in fault(nulls)
    assert "`position`" in fault(position=pl.col("a"))
    # Polars sees it first; Polars 1 does not say where.
    told = "equal length" if pl.__version__.startswith("1.") else "position"
    with pytest.raises(pl.exceptions.ShapeError, match=told):
        clicks.select(tg.fit_gbdt("click", "a", group="list", position=pl.lit(pl.Series([1, 2])), loss="lambdarank"))
    assert "rank_position_l2" in fault(error=ValueError, rank_position_l2=-1)
    assert "position=" in fault(error=TypeError, lambdarank_unbiased=True)
    assert "rank_position_l2" in fault(error=TypeError, lambdarank_position_bias_regularization=0.1)


def test_the_estimator_is_the_expression(clicks: pl.DataFrame) -> None:
    few = clicks.head(9000)
    x, y, group, rank = few.select("a", "b"), few["click"].to_numpy(), few["list"].to_numpy(), few["rank"].to_numpy()
    est = GbdtRanker(rounds=5, rank_position_l2=0.01).fit(x, y, group=group, position=rank)
    direct = few.rename({"click": "target", "list": "group", "rank": "position"}).taiga.fit_gbdt(
        "target", "a", "b", group="group", position="position", loss="lambdarank", rounds=5, rank_position_l2=0.01
    )
    assert est.model_ == direct
    out = group % 3 == 0
    held_out = (x.filter(out), y[out], group[out])
    stopped = GbdtRanker(rounds=60, early_stopping=3).fit(
        x.filter(~out), y[~out], group[~out], eval_set=held_out, position=rank[~out]
    )
    assert stopped.model_.position_factors.height == PLACES
    with pytest.raises(ValueError, match="position has 3 rows"):
        GbdtRanker().fit(x, y, group=group, position=rank[:3])
