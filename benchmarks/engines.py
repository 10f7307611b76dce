"""Predictions in other engines: `python -m benchmarks.engines [--rows 1000000] [--only tg.predict,DuckDB]`.

One model scores the same rows by `tg.predict`, by its functions in DuckDB and DataFusion, by ONNX Runtime, and by a
frame that DuckDB gives Polars: tables in memory, the mean of the predictions as the result, the best of `--repeats`
runs in turn.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 100


def entries(rows: int, features: int, threads: int) -> tuple[int, dict[str, Callable[[], Any]]]:
    """The number of rows, and what is timed: each returns the mean of the predictions."""
    import datafusion
    import duckdb
    import numpy as np
    import onnxruntime
    import polars as pl
    import polars_taiga as tg

    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{i}": rng.normal(size=rows).astype(np.float32) for i in range(features)})
    columns = list(frame.columns)
    train = frame.head(200_000).with_columns(y=pl.col("x0") * pl.col("x1") + pl.col("x2").sin())
    model = train.taiga.fit_gbdt("y", *columns, rounds=ROUNDS)

    connection = duckdb.connect(config={"threads": threads})
    connection.register("arrow", frame.to_arrow())
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    tg.duckdb.register(connection, "m", model)

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    context.from_arrow(frame.to_arrow(), name="t")
    tg.datafusion.register(context, "m", model)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.to_onnx(), options)

    def onnx() -> Any:
        return session.run(None, {"features": frame.to_numpy()})[0].astype(np.float64).mean()

    return rows, {
        "tg.predict": lambda: frame.lazy().select(tg.predict(model).mean()).collect().item(),
        "DuckDB: m('t')": lambda: connection.sql("SELECT AVG(prediction) FROM m('t')").fetchall()[0][0],
        "DuckDB: AVG(x0) alone": lambda: connection.sql("SELECT AVG(x0) FROM t").fetchall()[0][0],
        "DuckDB to Polars": lambda: connection.sql("SELECT * FROM t").pl().select(tg.predict(model).mean()).item(),
        "DataFusion: m(…)": lambda: context.sql(f"SELECT AVG(m({', '.join(columns)})) AS p FROM t").to_pydict()["p"][0],
        "ONNX Runtime": onnx,
    }


def main() -> None:
    """Measures all entries in turn, `--repeats` times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="the entries that have one of these texts, divided by commas")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = str(args.threads)
    from benchmarks.harness import RESULTS, Results, number, table, version

    results = Results(args.out or RESULTS / "engines.jsonl")
    rows, found = entries(args.rows, args.features, args.threads)
    found = {name: run for name, run in found.items() if any(text in name for text in args.only.split(","))}
    best: dict[str, float] = {}
    processor: dict[str, float] = {}
    for _ in range(args.repeats):
        for name, run in found.items():
            began, used = time.perf_counter(), time.process_time()
            run()
            processor[name] = min(processor.get(name, float("inf")), time.process_time() - used)
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - began)
    ours = best["tg.predict"]
    for name, seconds in best.items():
        results.add({"job": "engines", "entry": name, "rows": rows, "best_s": seconds, "processor_s": processor[name]})
    body = [
        [name, number(s, 4), number(processor[name], 4), f"{rows / s / 1e6:.1f}", f"{s / ours:.1f}"]
        for name, s in best.items()
    ]
    packages = ("duckdb", "datafusion", "onnxruntime")
    print(
        f"{rows:,} x {args.features} f32, {ROUNDS} trees, {args.threads} threads; {[(p, version(p)) for p in packages]}"
    )
    print(table(["", "best s", "processor s", "million rows/s", "times tg.predict"], body))


if __name__ == "__main__":
    main()
