"""What a user says of a model: kept in its bytes, and in nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest
from polars.testing import assert_series_equal

FEATURES = list("abcd")
SAID: dict[str, Any] = {
    "zürich": [1, -2, 2.5, 1e300, None, True],
    "a": {"nested": {"b": 2**64 - 1, "a": -(2**63)}, "text": 'q"\n\u20ac'},
}
FITS: list[Callable[..., tg.Model]] = [
    lambda df, **more: df.taiga.fit_gbdt("kind", FEATURES, rounds=2, **more),
    lambda df, **more: df.taiga.fit_forest("flag", FEATURES, trees=2, **more),
    lambda df, **more: df.taiga.fit_sparse_lr("flag", dense=FEATURES, **more),
]


@pytest.mark.parametrize("fit", FITS)
def test_metadata_travel_with_the_model(df: pl.DataFrame, fit: Callable[..., tg.Model]) -> None:
    clean = df.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0))
    bare, said = fit(clean), fit(clean, metadata=SAID)
    assert bare.metadata == {}
    assert said.metadata == SAID
    assert said != bare
    assert tg.Model.from_bytes(said.to_bytes()).metadata == SAID
    assert bare.with_metadata(SAID) == said
    assert bare.with_metadata({"a": SAID["a"], "zürich": tuple(SAID["zürich"])}) == said
    # Bytes without metadata are those of a model that never had any, in the version of old.
    assert said.with_metadata(None) == bare == said.with_metadata({}) == fit(clean, metadata={})
    assert int.from_bytes(said.to_bytes()[8:12], "little") > int.from_bytes(bare.to_bytes()[8:12], "little")
    assert_series_equal(said.predict(clean), bare.predict(clean), check_exact=True)
    assert said.params == bare.params
    said.metadata["more"] = 1
    assert said.metadata == SAID
    if said.learner != "sparse_lr":
        assert said.head(1).metadata == SAID
        assert said.head(1).with_metadata(None) == bare.head(1)


def test_in_groups(df: pl.DataFrame) -> None:
    models = df.group_by("group").agg(tg.fit_gbdt("y", FEATURES, rounds=2, metadata={"by": "group"}))
    assert all(tg.Model(m).metadata == {"by": "group"} for m in models["model"])


@pytest.mark.parametrize(
    ("metadata", "error", "text"),
    [
        ([1], TypeError, "a dictionary of JSON values, not list"),
        ({1: 2}, TypeError, "the name 1 is not a string"),
        ({"a": {"b": [0, {1}]}}, TypeError, r"metadata\['a'\]\['b'\]\[1\]: set is no JSON value"),
        ({"a": float("nan")}, ValueError, "nan is not a finite number"),
        ({"a": 2**64}, ValueError, "does not fit into 64 bits"),
        ({"a": "x" * (1 << 20)}, ValueError, "more than a mebibyte"),
    ],
)
def test_what_is_no_metadata(regression: tg.Model, metadata: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        regression.with_metadata(metadata)
    with pytest.raises(error, match=text):
        tg.fit_gbdt("y", FEATURES, metadata=metadata)


def test_damaged_metadata(regression: tg.Model) -> None:
    data = regression.with_metadata({"a": "b"}).to_bytes()
    for at in range(len(data) - 40, len(data)):
        with pytest.raises(ValueError, match=r"damaged|cut|metadata|not"):
            tg.Model.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
