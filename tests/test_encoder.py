"""Encoders as Python values."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal, assert_series_equal


@pytest.fixture
def train() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "city": ["a", "b", None, "a", "c", "b"] * 5,
            "zip": [1, 2, 3, 1, None, 2**40] * 5,
            "ok": [True, False, None] * 10,
            "y": [float(i % 7) for i in range(30)],
            "kind": [["low", "mid", "top"][i % 3] for i in range(30)],
        }
    )


def test_an_encoder_tells_what_it_holds(train: pl.DataFrame) -> None:
    encoder = train.taiga.fit_target_encoder(["city", "zip", "ok"], "y")
    assert encoder.target == "y"
    assert encoder.classes is None
    assert encoder.features == {"city": "text", "zip": "integers", "ok": "Booleans"}
    assert encoder.computed_features == []
    assert encoder.categories == {
        "city": ["a", "b", None, "c"],
        "zip": [1, 2, 3, None, 2**40],
        "ok": [True, False, None],
    }
    assert repr(encoder).startswith("Encoder(target='y', features=[city: 4 categories, zip: 5 categories, ok: 3")
    for name in encoder.features:
        table = encoder.table(name)
        assert table["category"].dtype == train[name].dtype
        encoded = table.select(tg.encode(encoder, pl.col("category").alias(name)))[name]
        assert_series_equal(table["value"], encoded, check_names=False, check_exact=True)
    unseen = pl.DataFrame({"city": ["z"], "zip": [77], "ok": [True]}).select(tg.encode(encoder))
    assert unseen["city"].item() == encoder.prior["city"]
    assert unseen["zip"].item() == encoder.prior["zip"]
    with pytest.raises(ValueError, match="name one of the columns 'city', 'zip'"):
        encoder.table()
    with pytest.raises(ValueError, match="'y' is none of the columns"):
        encoder.table("y")


def test_of_several_classes(train: pl.DataFrame) -> None:
    encoder = train.taiga.fit_target_encoder("city", "kind", classes=["low", "mid", "top"])
    assert encoder.classes == ["low", "mid", "top"]
    table = encoder.table()
    assert table["value"].dtype == pl.Struct(dict.fromkeys(["low", "mid", "top"], pl.Float64))
    assert_series_equal(
        table["value"], table.select(tg.encode(encoder, pl.col("category").alias("city")))["city"], check_names=False
    )
    prior = encoder.prior["city"]
    assert isinstance(prior, dict)
    assert abs(sum(prior.values()) - 1) < 1e-12


def test_bytes_files_and_pickles(train: pl.DataFrame, tmp_path: Path) -> None:
    encoder = train.taiga.fit_target_encoder("city", "y")
    other = train.taiga.fit_target_encoder("city", "y", prior_weight=3.0)
    encoder.save(tmp_path / "encoder")
    copies = [
        tg.Encoder.from_bytes(encoder.to_bytes()),
        tg.Encoder.load(tmp_path / "encoder"),
        pickle.loads(pickle.dumps(encoder)),
    ]
    assert all(copy == encoder and hash(copy) == hash(encoder) and copy != other for copy in copies)
    expected = train.select(tg.encode(encoder.to_bytes()))
    assert_frame_equal(train.select(tg.encode(encoder)), expected)
    assert_frame_equal(train.select(pl.col("city").taiga.encode(encoder)), expected)
    assert train.select(pl.col("city").taiga.fit_target_encoder("y")).item() == encoder.to_bytes()
    for data, text in [(b"", "empty"), (encoder.to_bytes()[:-1], "cut"), (b"PAR1", "not a polars-taiga encoder")]:
        with pytest.raises(ValueError, match=text):
            tg.Encoder.from_bytes(data)
    with pytest.raises(TypeError, match="not of str"):
        tg.Encoder("encoder")  # type: ignore[arg-type]
