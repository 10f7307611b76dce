"""Words behind the coefficients of a model that hashes them."""

from __future__ import annotations

import polars as pl
import polars_taiga as tg
import pytest


def test_words_behind_coefficients() -> None:
    rows = [["good", "film"], ["bad"], ["good", "day"], ["bad", "plot", "end"]] * 5
    df = pl.DataFrame({"words": rows, "liked": [True, False] * 10})
    model = df.taiga.fit_sparse_lr("liked", "words", hash_bits=2)
    table = model.coefficients(words=df["words"])
    assert table.drop("words").equals(model.coefficients())
    assert table["words"].list.len().max() > 1  # type: ignore[operator]
    # A word alone is where the table says it is.
    alone = pl.DataFrame({"words": [[w] for w in ["good", "film", "bad", "day", "plot", "end"]]})
    scores = alone.select("words", raw=tg.predict(model, output="raw"))
    of = {word: c for words, c in table.select("words", "coefficient").iter_rows() for word in words}
    for words, raw in scores.iter_rows():
        assert raw - model.intercepts[0] == pytest.approx(of.get(words[0], 0.0), abs=1e-6)
    assert sum(table["words"].list.len()) == len(of)
    assert model.coefficients(words=[])["words"].list.len().sum() == 0
    with pytest.raises(TypeError, match="parameter `words`: 'good' is not a list"):
        model.coefficients(words="good")
    with pytest.raises(TypeError, match="parameter `words`: 3 is not a string"):
        model.coefficients(words=[3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="the Series is of Int64"):
        model.coefficients(words=pl.Series([3]))
    numbers = pl.DataFrame({"i": [[0], [1]] * 5, "y": [True, False] * 5}).taiga.fit_sparse_lr("y", "i")
    with pytest.raises(ValueError, match="parameter `words`: the features of the model of `y` are not strings"):
        numbers.coefficients(words=["a"])
