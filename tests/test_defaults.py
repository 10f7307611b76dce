"""What a fit takes for `rounds` and `learning_rate` where neither is given."""

from __future__ import annotations

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars_taiga.sklearn import GbdtClassifier, GbdtRegressor


def noisy(rows: int, seed: int = 0) -> pl.DataFrame:
    """A target of one column's wave and noise, a text column, and a label."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(size=rows), rng.normal(size=rows)
    y = np.sin(9 * x) + z / 3 + rng.normal(size=rows) / 2
    text = pl.Series(np.array(["a", "b", "c"])[rng.integers(0, 3, rows)])
    label, three = np.where(y > 0.3, "high", "low"), np.select([y > 0.6, y > 0], ["high", "middle"], "low")
    return pl.DataFrame({"x": x, "z": z, "t": text, "y": y, "label": label, "three": three})


def fitted(df: pl.DataFrame, target: str = "y", **params: object) -> tg.Model:
    """The model of a frame's features."""
    return df.taiga.fit_gbdt(target, "x", "z", "t", **params)


def step(rows: int) -> float:
    """What the docstring says of `learning_rate`."""
    return 0.1 * min(1, rows / 5000) ** 0.25


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(50, 700),
    seed=st.integers(0, 5),
    target=st.sampled_from(["y", "label", "three"]),
    given_step=st.sampled_from([None, 0.3]),
)
def test_what_was_found_is_told_and_makes_the_same_model(
    rows: int, seed: int, target: str, given_step: float | None
) -> None:
    """The parameters of a model that found its rounds make it again, to the byte."""
    df = noisy(rows, seed)
    model = fitted(df, target, seed=seed, depth=3, learning_rate=given_step)
    assert model.params["learning_rate"] == pytest.approx(given_step or step(rows))
    assert model.rounds == model.params["rounds"] <= round(75 / model.params["learning_rate"])
    assert model.params.get("multi_strategy") == ("one_tree" if target == "three" else None)
    found = ("rounds", "learning_rate", "multi_strategy")
    told = {name: model.params[name] for name in found if name in model.params}
    assert fitted(df, target, seed=seed, depth=3, **told).to_bytes() == model.to_bytes()


def test_what_is_given_is_taken() -> None:
    """Rounds that are given come with the step of 0.1; nothing is hidden, and classes have a tree each."""
    params = fitted(noisy(300), "three", rounds=9).params
    assert (params["rounds"], params["learning_rate"], params.get("multi_strategy")) == (9, 0.1, None)


@pytest.mark.parametrize("told", [{"multi_strategy": "tree_each"}, {"monotone": {"x": 1}}])
def test_classes_that_cannot_or_shall_not_share_have_a_tree_each(told: dict[str, object]) -> None:
    """One tree for all classes is what a fit finds best, and no more than that."""
    model = fitted(noisy(300), "three", depth=2, **told)
    assert model.params.get("multi_strategy") in (None, "tree_each")


@pytest.mark.parametrize("rows", [2, 10, 49])
def test_few_rows_hide_none(rows: int) -> None:
    """Fewer than 50 rows have 100 rounds of 0.1."""
    params = fitted(noisy(rows)).params
    assert (params["rounds"], params["learning_rate"]) == (100, 0.1)


def test_every_group_has_rounds_of_its_own() -> None:
    """A model of a group is that of its rows alone."""
    df = noisy(600).with_columns(g=pl.int_range(600) % 3)
    models = df.group_by("g", maintain_order=True).agg(m=tg.fit_gbdt("y", "x", "z", "t"))["m"]
    for number, model in enumerate(models):
        alone = df.filter(pl.col("g") == number).select(tg.fit_gbdt("y", "x", "z", "t")).item()
        assert model == alone


def test_held_out_rows_are_measured_and_decide_with_early_stopping_alone() -> None:
    """Without `early_stopping` they change nothing; with it they end the fit."""
    df = noisy(800).with_columns(held=pl.int_range(800) % 5 == 0)
    measured = fitted(df, eval="held")
    assert measured.history.height == measured.rounds == measured.params["rounds"]
    spoilt = df.with_columns(y=pl.when("held").then(-5.0).otherwise("y"))
    assert fitted(spoilt, eval="held").rounds == measured.rounds
    stopped = fitted(df, eval="held", early_stopping=10)
    assert stopped.rounds < stopped.params["rounds"] == round(60 / step(640))


def test_estimators_have_the_same_defaults() -> None:
    """An estimator without arguments is the function without parameters."""
    df = noisy(300)
    features = df.select("x", "z")
    of_numbers = GbdtRegressor().fit(features, df["y"])
    assert of_numbers.n_iter_ == df.taiga.fit_gbdt("y", "x", "z").rounds
    of_classes = GbdtClassifier().fit(features, df["label"])
    assert of_classes.n_iter_ == df.taiga.fit_gbdt("label", "x", "z").rounds


def test_noise_is_worth_few_rounds_and_a_function_many() -> None:
    """The number of rounds is the table's."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=2000)
    df = pl.DataFrame({"x": x, "noise": rng.normal(size=2000), "wave": np.sin(20 * x)})
    assert df.taiga.fit_gbdt("noise", "x").rounds < 40
    assert df.taiga.fit_gbdt("wave", "x").rounds > 300
