"""Selectors in parameters about columns: the model is that of the names they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

FEATURES = ["p_a", "p_b", "k", "m", "x"]


@pytest.fixture(scope="module")
def df() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    n = 400
    frame = pl.DataFrame({name: rng.normal(size=n) for name in ("p_a", "p_b", "x")})
    frame = frame.with_columns(
        k=pl.Series(rng.integers(0, 9, n)), m=pl.Series(rng.integers(0, 5, n)), g=pl.Series([0, 1] * 200)
    )
    return frame.with_columns(y=pl.col("p_a") - pl.col("p_b") + pl.col("k") % 3 + pl.col("x") * 0.1)


WAYS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"categorical": cs.by_name("k", "m")}, {"categorical": ["k", "m"]}),
    ({"categorical": ["k", cs.starts_with("m")]}, {"categorical": ["k", "m"]}),
    ({"categorical": pl.col("k")}, {"categorical": ["k"]}),
    ({"categorical": "k"}, {"categorical": ["k"]}),
    # `g` and `y` are no features; nothing is selected.
    ({"categorical": cs.string()}, {"categorical": []}),
    ({"categorical": cs.integer()}, {"categorical": ["k", "m"]}),
    ({"monotone": [(cs.starts_with("p_"), 1), ("x", -1)]}, {"monotone": {"x": -1, "p_a": 1, "p_b": 1}}),
    ({"monotone": {cs.starts_with("p_"): 1}}, {"monotone": {"p_a": 1, "p_b": 1}}),
    (
        {"feature_weights": [(cs.starts_with("p_"), 0.25), ("x", 2)]},
        {"feature_weights": {"x": 2.0, "p_a": 0.25, "p_b": 0.25}},
    ),
    ({"feature_weights": {cs.starts_with("p_"): np.float32(0.5)}}, {"feature_weights": {"p_a": 0.5, "p_b": 0.5}}),
    ({"bins": [(cs.starts_with("p_"), 9), ("x", 20)]}, {"bins": {"x": 20, "p_a": 9, "p_b": 9}}),
    ({"bins": {cs.integer(): np.int64(2)}}, {"bins": {"k": 2, "m": 2}}),
    # The target is no feature.
    ({"feature_weights": [(cs.by_name("k", "y"), 3)]}, {"feature_weights": {"k": 3}}),
    ({"interaction": [cs.starts_with("p_"), ["k", cs.by_name("m")]]}, {"interaction": [["p_a", "p_b"], ["k", "m"]]}),
]


@pytest.mark.parametrize(("selected", "named"), WAYS, ids=[str(way) for way in range(len(WAYS))])
def test_selectors_give_the_model_of_the_names(
    df: pl.DataFrame, selected: dict[str, Any], named: dict[str, Any]
) -> None:
    ours, theirs = (df.taiga.fit_gbdt("y", *FEATURES, rounds=3, **params) for params in (selected, named))
    assert ours == theirs
    assert ours.params == theirs.params
    if named.keys() <= {"bins", "categorical"}:
        forests = [df.taiga.fit_forest("y", FEATURES, trees=3, **params) for params in (selected, named)]
        assert forests[0] == forests[1]


def test_groups_and_lazy_frames(df: pl.DataFrame) -> None:
    def models(**params: Any) -> list[bytes]:
        fits = df.lazy().group_by("g", maintain_order=True).agg(tg.fit_gbdt("y", FEATURES, rounds=2, **params))
        return fits.collect()["model"].to_list()

    assert models(categorical=cs.integer()) == models(categorical=["k", "m"])
    assert models(categorical=cs.string()) == models()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"categorical": cs.by_name("k") + 1}, "parameter `categorical`: .* computes something"),
        ({"categorical": [3, cs.integer()]}, "parameter `categorical`: 3 is neither a feature's name nor a selector"),
        ({"monotone": [(cs.float(), 2)]}, "parameter `monotone`: 2 is not -1, 0 or 1"),
        ({"monotone": [(cs.float(), "up")]}, "parameter `monotone`: 'up' is not"),
        ({"monotone": [("x", 1), ("x", -1)]}, "parameter `monotone`: column `x` is given both 1 and -1"),
        (
            {"monotone": [(cs.float(), 1), (cs.starts_with("p_"), -1)]},
            "parameter `monotone`: column `p_a` is given both",
        ),
        ({"monotone": [cs.float()]}, "is not a pair of features and their direction"),
        (
            {"feature_weights": [(cs.float(), -1)]},
            "parameter `feature_weights`: -1 for .* is not zero or a positive number",
        ),
        ({"feature_weights": [("x", "much")]}, "parameter `feature_weights`: 'much' for `x` is not a number"),
        (
            {"feature_weights": [("x", 1), ("x", 2)]},
            "parameter `feature_weights`: column `x` is given both 1.0 and 2.0",
        ),
        (
            {"feature_weights": [(cs.float(), 2), (cs.starts_with("p_"), 3)]},
            "parameter `feature_weights`: column `p_a` is given both",
        ),
        ({"feature_weights": [(cs.numeric(), 0)]}, "parameter `feature_weights`: all features .* have the weight 0"),
        ({"bins": [(cs.float(), 257)]}, "parameter `bins`: 257 for .* is not between 2 and 256"),
        ({"bins": [("x", 3), ("x", 4)]}, "parameter `bins`: column `x` is given both 3 and 4"),
        ({"bins": [(cs.float(), 3), (cs.starts_with("p_"), 4)]}, "parameter `bins`: column `p_a` is given both"),
        ({"bins": [("x", 2.5)]}, "parameter `bins`: 2.5 for `x` is not a whole number"),
        ({"feature_weights": [cs.float()]}, "is not a pair of features and their weight"),
        ({"interaction": cs.float()}, "parameter `interaction`: it is a list of groups"),
        ({"interaction": [["x"], cs.string()]}, "parameter `interaction`: what group 1 selects is no feature"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_selections(df: pl.DataFrame, params: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError, pl.exceptions.PolarsError), match=text):
        df.taiga.fit_gbdt("y", *FEATURES, rounds=1, **params)
