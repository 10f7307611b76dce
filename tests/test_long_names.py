"""Names and labels of any length: what a model tells shares their text, however often it names them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import polars as pl
import polars_taiga as tg
import pytest

LONG = 1 << 20


def limited(body: str) -> str:
    """Run Python code in a process of its own that may have six gigabytes of addresses."""
    head = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        import polars as pl
        import polars_taiga as tg
        LONG = 1 << 20
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of addresses are Linux's")


@linux
def test_a_long_column_name_is_told_once() -> None:
    """A name of a megabyte in ten thousand nodes would be ten gigabytes."""
    out = limited("""
        name = "x" * LONG
        df = pl.DataFrame({name: range(1000)}).with_columns(y=(pl.col(name) * 7919 % 1013).cast(pl.Float64))
        trees = df.taiga.fit_gbdt("y", name, rounds=200, depth=6).trees()
        assert trees["feature"].drop_nulls().str.len_bytes().unique().to_list() == [LONG]
        print(trees.height)
    """)
    assert int(out) > 10_000


@linux
def test_a_long_category_is_told_once() -> None:
    """Likewise a category's, in the splits of a forest."""
    out = limited("""
        labels = ["a" * LONG, "b", "c", "d", "e"]
        df = pl.DataFrame({"i": range(4000)}).with_columns(
            c=pl.lit(pl.Series(labels)).gather(pl.col("i") * 31 % 101 % 5),
            y=(pl.col("i") * 7919 % 1013).cast(pl.Float64),
        )
        trees = df.taiga.fit_forest("y", ["c", "i"], trees=200).trees()
        long = trees["right_categories"].explode().str.len_bytes() == LONG
        print(long.sum())
    """)
    assert int(out) > 7_000


@linux
def test_a_long_class_is_told_once() -> None:
    """Likewise a class's, in the coefficients of a sparse logistic regression."""
    out = limited("""
        df = pl.DataFrame({"i": [[k] for k in range(20_000)]}).with_row_index("k")
        df = df.with_columns(y=pl.lit(pl.Series(["a", "b" * LONG])).gather(pl.col("k") % 2))
        coefficients = df.taiga.fit_sparse_lr("y", "i", epochs=2).coefficients()
        assert (coefficients["class"].str.len_bytes() == LONG).all()
        print(coefficients.height)
    """)
    assert int(out) > 10_000


def test_names_stand_where_they_belong() -> None:
    """Features, categories (null among them, and none at all) and classes by their names."""
    df = pl.DataFrame({"i": range(300)}).with_columns(
        c=pl.when(pl.col("i") % 4 > 0).then(pl.lit("c") + (pl.col("i") % 4).cast(pl.String)),
        x=(pl.col("i") * 37 % 101).cast(pl.Float64),
        y=(pl.col("i") % 4 + pl.col("i") * 37 % 101 / 50).cast(pl.Float64),
    )
    trees = df.taiga.fit_forest("y", ["x", "c"], trees=3, seed=1).trees()
    inner = trees.filter(pl.col("leaf").is_null())
    assert set(inner["feature"]) == {"x", "c"}
    assert trees.filter(pl.col("leaf").is_not_null())["feature"].null_count() == trees["leaf"].count()
    assert (inner["right_categories"].is_null() == (inner["feature"] == "x")).all()
    named = inner["right_categories"].drop_nulls().explode()
    assert set(named) <= {None, "c1", "c2", "c3"}
    assert named.len() > 3
    boosted = df.taiga.fit_gbdt("y", ["x", "c"], rounds=5).trees()
    assert "x" in set(boosted["feature"])
    assert any("(c" in (name or "") for name in boosted["feature"])
    model = df.with_columns(k=(pl.col("y") > 2).cast(pl.String)).taiga.fit_sparse_lr("k", dense=["x", "y"])
    coefficients = model.coefficients()
    assert coefficients["name"].to_list() == ["x", "y"]
    assert coefficients["class"].to_list() == ["true", "true"]
    assert isinstance(model, tg.Model)
