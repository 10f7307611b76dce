"""What takes more memory than its process may have, one function a case; see `test_memory_limit.py`.

`python tests/memory_limit_cases.py CASE` runs one under limits that it sets itself.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg

RNG = np.random.default_rng(0)
SMALL = pl.DataFrame({"x": RNG.normal(size=300), "z": RNG.normal(size=300), "c": RNG.integers(0, 9, 300)}).with_columns(
    y=pl.col("x") > 0, k=(pl.col("c") % 3).cast(pl.String), f=pl.concat_list("c", "c")
)

# What an expression's error is in a query of the user's own.
IN_A_QUERY = pl.exceptions.ComputeError

room = 0


def works() -> None:
    """Fit, encode, count and predict once."""
    models = [
        SMALL.taiga.fit_gbdt("y", "x", "z", rounds=3),
        SMALL.taiga.fit_forest("y", "x", "z", trees=3),
        SMALL.taiga.fit_sparse_lr("y", indices="f"),
    ]
    for model in models:
        assert SMALL.select(tg.predict(model)).height == 300
    SMALL.select(a=tg.target_encode("k", "y"), b=tg.count_encode("k"), d=tg.quantize("x", bins=5))
    SMALL.select(tg.histogram("x", bins=5))


def limit(more: int = 3 << 29) -> None:
    """Limit this process's addresses to what it has and so many bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, resource.RLIM_INFINITY))
    global room
    room = more


def refused(what: str, make: Callable[[], object], kind: type[Exception] = MemoryError) -> None:
    """Check that `make` raises an error of a kind that has both figures, and that the process goes on."""
    try:
        made = make()
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"nothing was refused: {made!r:.200}")
    size = r"[0-9.]+ [kMG]B"
    assert "not enough memory" in text, text
    assert re.search(f"needs at least {size}( in one piece)?, and .* {size} free", text), text
    assert re.search(what, text), text
    tight = room
    if tight < 1 << 28:
        # Not even the stacks of a fit's threads would have room.
        limit()
    works()
    if tight < 1 << 28:
        limit(tight)


def gbdt_classes() -> None:
    df = pl.select(x=pl.int_range(120_000) % 997, y=pl.int_range(120_000) % 3000)
    limit()
    refused("3000 (classes|scores)", lambda: df.taiga.fit_gbdt(pl.col("y").cast(pl.String), "x", rounds=1))
    refused(
        "3000 (classes|scores)",
        lambda: df.lazy().select(tg.fit_gbdt(pl.col("y").cast(pl.String), "x", rounds=1)).collect(),
        IN_A_QUERY,
    )


def gbdt_permutations() -> None:
    df = pl.select(c=(pl.int_range(4_000_000) * 7919 % 5000).cast(pl.String), y=pl.int_range(4_000_000) % 17 * 1.0)
    limit()
    refused("permutations", lambda: df.taiga.fit_gbdt("y", "c", rounds=1, permutations=64))


def gbdt_histograms() -> None:
    x = RNG.normal(size=(60_000, 150))
    df = pl.DataFrame({f"x{i}": x[:, i] for i in range(150)}).with_columns(
        y=pl.Series(np.sin(9 * x[:, 0]) + x[:, 1] * x[:, 2])
    )
    limit()
    refused(
        "histograms of 150 features in [0-9]+ nodes.*lower `depth`|memory of a tree's histograms",
        lambda: df.taiga.fit_gbdt(
            "y", pl.exclude("y"), rounds=1, depth=14, policy="depthwise", min_child_weight=0, bins=256, n_threads=2
        ),
    )


def gbdt_statistics() -> None:
    rows = pl.int_range(3_000_000)
    columns = {f"c{i}": (rows * (7919 + 2 * i) // 3 % 800).cast(pl.String) for i in range(4)}
    df = pl.select(**columns, y=rows % 17 * 1.0)
    priors = [i / 12 for i in range(12)]
    limit(7 << 26)
    refused("statistics of", lambda: df.taiga.fit_gbdt("y", pl.exclude("y"), rounds=1, depth=1, ctr_priors=priors))


def gbdt_borders() -> None:
    df = pl.select(x=pl.int_range(25_000_000) % 999_983 * 1.0, y=pl.int_range(25_000_000) % 17 * 1.0)
    limit(1 << 28)
    refused("25000000 rows", lambda: df.taiga.fit_gbdt("y", "x", rounds=1, border_sample=25_000_000))


def lr_hashed_classes() -> None:
    df = pl.select(y=pl.int_range(6000) % 2000).with_columns(
        f=pl.concat_list(pl.col("y").cast(pl.String), pl.lit("b")), y=pl.col("y").cast(pl.String)
    )
    limit()
    for optimizer in ("lbfgs", "sgd", "adagrad", "ftrl"):
        refused("to 2000 classes", partial(df.taiga.fit_sparse_lr, "y", indices="f", optimizer=optimizer, epochs=30))


def lr_held_out() -> None:
    df = pl.select(y=pl.int_range(300_000) % 900).with_columns(
        f=pl.concat_list(pl.col("y")), held=pl.col("y") > 100, y=pl.col("y").cast(pl.String)
    )
    limit()
    refused("to 900 classes", lambda: df.taiga.fit_sparse_lr("y", indices="f", optimizer="sgd", epochs=1, eval="held"))


def forest_classes() -> None:
    df = pl.select(x=pl.int_range(120_000) % 997, y=pl.int_range(120_000) % 3000).with_columns(
        y=pl.col("y").cast(pl.String)
    )
    limit(3 << 28)
    refused("a forest of 120000 rows", lambda: df.taiga.fit_forest("y", "x", trees=2))
    # Without predictions out of bag it is the leaves that grow.
    refused("sums of the leaves", lambda: df.head(10_000).taiga.fit_forest("y", "x", trees=400, oob=False))


def forest_exact() -> None:
    x = pl.int_range(4_000_000) % 999_983 * 1.0
    df = pl.select(**{f"x{i}": x for i in range(2)}, y=x)
    features = [pl.col("x0").alias(f"f{i}") for i in range(100)]
    limit()
    refused(
        "a forest of 4000000 rows and 100 features",
        lambda: df.taiga.fit_forest("y", *features, trees=1, splitter="exact"),
    )
    refused(
        "a forest of 4000000 rows and 100 features",
        lambda: df.taiga.fit_forest("y", *features, trees=1, splitter="random"),
    )
    features = [pl.col("x0").alias(f"f{i}") for i in range(250)]
    refused("a forest of 4000000 rows and 250 features", lambda: df.taiga.fit_forest("y", *features, trees=1))


def predictions() -> None:
    model = SMALL.taiga.fit_gbdt("y", "x", "z", rounds=200, depth=2)
    forest = SMALL.taiga.fit_forest("y", "x", "z", trees=200, depth=2)
    many = pl.select(y=pl.int_range(4000) % 400).with_columns(
        f=pl.concat_list("y"), x=pl.col("y") * 1.0, y=pl.col("y").cast(pl.String)
    )
    classes = many.taiga.fit_gbdt("y", "x", rounds=1, depth=1)
    trees = many.taiga.fit_forest("y", "x", trees=2)
    linear = many.taiga.fit_sparse_lr("y", indices="f", optimizer="sgd", epochs=1)
    df = pl.select(x=pl.int_range(3_000_000) % 997 * 1.0).with_columns(
        z="x", f=pl.concat_list(pl.col("x").cast(pl.Int64) % 400)
    )
    limit()
    for own in (model, forest):
        refused("3000000 rows", partial(df.select, tg.predict(own, output="leaf")), IN_A_QUERY)
    refused("3000000 rows", lambda: df.select(tg.predict(model, output="staged")), IN_A_QUERY)
    for own in (classes, trees, linear):
        refused("3000000 rows", partial(df.select, tg.predict(own)), IN_A_QUERY)
    label = (pl.col("x").cast(pl.Int64) % 400).cast(pl.String)
    shuffled = tg.importance(classes, label, kind="permutation", repeats=1)
    refused("3000000 rows with a shuffled column", lambda: df.select(shuffled), IN_A_QUERY)
    assert df.select(tg.predict(model)).height == 3_000_000


def encodings() -> None:
    rows = 3_000_000
    df = pl.select(c=pl.int_range(rows), k=(pl.int_range(rows) % 100).cast(pl.String), y=pl.int_range(rows) % 2 == 0)
    classes = [str(i) for i in range(100)]
    limit()
    for kind in ("ordered", "kfold", "loo", "full"):
        refused(
            "encoding of 3000000 rows",
            partial(df.select, tg.target_encode("c", "k", kind=kind, classes=classes)),
            IN_A_QUERY,
        )
    refused("encoder of 3000000 categories", lambda: df.taiga.fit_target_encoder("c", target="k", classes=classes))


def many_rows() -> None:
    # Of NumPy's memory, so that Polars' allocator has no addresses left over that would do.
    rows = np.arange(20_000_000)
    df = pl.DataFrame({"k": pl.Series(rows % 100), "x": pl.Series(rows % 999_983 / 2), "y": pl.Series(rows % 2 == 0)})
    limit(1 << 26)
    refused("20000000 rows", lambda: df.select(tg.target_encode("k", "y")), IN_A_QUERY)
    refused("20000000 rows", lambda: df.select(tg.woe("k", "y")), IN_A_QUERY)
    refused("20000000 rows", lambda: df.select(tg.count_encode("k", normalize=True)), IN_A_QUERY)
    refused("20000000 rows", lambda: df.select(tg.combine("k", "y")), IN_A_QUERY)
    bins = "histogram of 2000 by 2000 bins"
    refused(bins, lambda: df.select(tg.histogram2d("x", "k", bins=2000)), IN_A_QUERY)
    bins = "histogram of 1000000 bins"
    refused(bins, lambda: df.select(tg.histogram("x", bins=1_000_000, weights=pl.col("x"))), IN_A_QUERY)
    refused("sample of 20000000 rows", lambda: df.select(tg.borders("x", sample=20_000_000, device="cpu")), IN_A_QUERY)
    limit(1 << 24)
    refused("codes of 20000000 rows", lambda: df.select(tg.quantize("x", bins=5)), IN_A_QUERY)


def encode() -> None:
    table = pl.select(c=pl.int_range(2000) % 50, k=(pl.int_range(2000) % 80).cast(pl.String))
    encoder = table.select(tg.fit_target_encoder("c", target="k", classes=[str(i) for i in range(80)])).item()
    df = pl.select(c=pl.int_range(3_000_000) % 50)
    limit()
    refused("encoding of 3000000 rows", lambda: df.select(tg.encode(encoder, "c")), IN_A_QUERY)


def models() -> None:
    rows = pl.DataFrame({f"x{i}": RNG.normal(size=20_000) for i in range(3)}).with_columns(
        y=pl.Series(RNG.normal(size=20_000))
    )
    forest = rows.taiga.fit_forest("y", pl.exclude("y"), trees=60)
    limit(1 << 26)
    refused("nodes", forest.trees)
    refused("JSON", forest.to_json)


def again() -> None:
    df = pl.select(x=pl.int_range(1_000_000) % 997, y=pl.int_range(1_000_000) % 20).with_columns(
        y=pl.col("y").cast(pl.String)
    )
    limit(1 << 30)
    models = [df.taiga.fit_gbdt("y", "x", rounds=1, depth=2, n_threads=2).to_bytes() for _ in range(6)]
    assert len(set(models)) == 1
    works()


def groups() -> None:
    rows = pl.int_range(2_000_000)
    df = pl.select(g=rows % 4, x=rows % 997, y=rows // 4 % 60)
    df = df.with_columns(y=pl.col("y").cast(pl.String))
    limit(3 << 28)
    # One of them fits alone; four at once do not, and some of them say so or all have had their turn.
    said = ""
    try:
        assert df.group_by("g").agg(tg.fit_gbdt("y", "x", rounds=1, depth=1)).height == 4
    except pl.exceptions.ComputeError as error:
        said = str(error)
    assert not said or "not enough memory" in said, said
    works()


CASES = [
    gbdt_classes,
    gbdt_permutations,
    gbdt_histograms,
    gbdt_statistics,
    gbdt_borders,
    lr_hashed_classes,
    lr_held_out,
    forest_classes,
    forest_exact,
    predictions,
    encodings,
    encode,
    many_rows,
    models,
    again,
    groups,
]

if __name__ == "__main__":
    # With all threads, pools and arenas that there will be.
    works()
    next(case for case in CASES if case.__name__ == sys.argv[1])()
