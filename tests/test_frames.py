"""What the methods of frames find out, since they know the frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

FRAME = pl.DataFrame(
    {
        "a\0b": [float(i % 7) for i in range(60)],
        "x": [float(i % 5) for i in range(60)],
        "y": [float(i % 9) for i in range(60)],
        "c": ["u" if i % 2 else "w" for i in range(60)],
        "id": range(60),
    }
)
MODEL = FRAME.taiga.fit_gbdt("y", "x", rounds=2)

SELECTED: dict[str, Callable[[], Any]] = {
    "all": lambda: pl.all().exclude("y", "c"),
    "a selector": lambda: cs.numeric() - cs.by_name("y"),
    "a regex": lambda: pl.col("^a.*$"),
    "names": lambda: pl.col("a\0b", "x"),
    "a list": lambda: ["x", cs.starts_with("a")],
    "a struct": lambda: pl.struct(cs.starts_with("a", "x")),
    "a suffix": lambda: pl.col("x", "id").name.suffix("\0"),
}
METHODS: dict[str, Callable[[Any], Any]] = {
    "fit_gbdt": lambda columns: FRAME.taiga.fit_gbdt("y", columns, rounds=2),
    "fit_gbdt, a role": lambda columns: FRAME.taiga.fit_gbdt("y", "x", row_key=columns, rounds=2),
    "fit_gbdt_by": lambda columns: FRAME.taiga.fit_gbdt_by("c", "y", columns, rounds=2),
    "fit_forest": lambda columns: FRAME.taiga.fit_forest("c", columns, trees=2),
    "fit_sparse_lr": lambda columns: FRAME.taiga.fit_sparse_lr("c", dense=columns),
    "fit_folds": lambda columns: FRAME.taiga.fit_folds("y", columns, rounds=2),
    "cross_validate": lambda columns: FRAME.taiga.cross_validate("y", columns, rounds=2),
    "search": lambda columns: FRAME.taiga.search("y", columns, rounds=2, space={"depth": [2, 3]}),
    "fit_target_encoder": lambda columns: FRAME.taiga.fit_target_encoder(columns, "y"),
    "receipt": lambda columns: FRAME.taiga.receipt(tg.fit_gbdt, "y", columns, row_key="id"),
    "score": lambda columns: FRAME.taiga.score(MODEL, "y", columns),
    "predict": lambda columns: FRAME.taiga.predict(MODEL, columns),
}


@pytest.mark.parametrize("selected", SELECTED)
@pytest.mark.parametrize("method", METHODS)
def test_a_name_with_nul_is_named(method: str, selected: str) -> None:
    """Proves that a column by whose name Polars would panic is an error of the call, whatever has selected it."""
    name = "x\0" if selected == "a suffix" else "a\0b"
    with pytest.raises(ValueError, match="has the character NUL in its name") as error:
        METHODS[method](SELECTED[selected]())
    assert repr(name) in str(error.value)


def test_other_columns_may_have_any_name() -> None:
    """Proves that a name with NUL is no fault of columns beside it, and that other errors stay what they are."""
    clean = FRAME.drop("a\0b")
    assert FRAME.taiga.fit_gbdt("y", cs.by_name("x"), rounds=2) == clean.taiga.fit_gbdt("y", "x", rounds=2)
    assert FRAME.taiga.predict(MODEL).drop("a\0b").equals(clean.taiga.predict(MODEL))
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nowhere"):
        FRAME.taiga.fit_gbdt("y", "nowhere", rounds=2)
    inner = clean.with_columns(s=pl.struct(pl.col("x").alias("q\0")))
    with pytest.raises(ValueError, match="NUL"):
        inner.taiga.fit_gbdt("y", pl.col("s", "x"), rounds=2)
