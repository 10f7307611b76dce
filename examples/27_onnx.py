"""Write a model with missing values and categories as an ONNX graph, and run it without Polars or this package."""

import sys

import numpy as np
import polars as pl
import polars_taiga as tg

try:
    import onnxruntime
except ImportError as error:
    sys.exit(print(f"not run: {error}"))

rng = np.random.default_rng(27)
n = 4_000
rows = pl.DataFrame(
    {
        "age": rng.integers(18, 90, n),
        "income": np.exp(rng.normal(10, 0.5, n)),
        "job": rng.choice(["cook", "nurse", "pilot", "smith"], n),
        "town": rng.choice([f"town {i}" for i in range(60)], n),
    }
).with_columns(
    income=pl.when(pl.col("age") % 9 > 0).then("income"),
    job=pl.when(pl.col("age") % 7 > 0).then("job"),
    stays=(pl.col("age") + 20 * (pl.col("job") == "smith").fill_null(False) + pl.Series(rng.normal(0, 9, n))) > 50,
)
model: tg.Model = rows.taiga.fit_gbdt("stays", "age", "income", "job", "town", rounds=100)
graph = model.to_onnx()
print(f"{model.rounds} trees, {len(graph):,} bytes of ONNX")

# What a service would do: no data frame, an array for each column.
session = onnxruntime.InferenceSession(graph)
print("inputs:", ", ".join(f"{one.name}: {one.type}" for one in session.get_inputs()))
feed = {
    "age": np.array([[23], [71]], dtype=np.float32),
    "income": np.array([[np.nan], [31_000.0]], dtype=np.float32),
    "job": np.array([["smith"], [""]], dtype=object),  # an empty text is null
    "town": np.array([["town 7"], ["a town of which nothing is known"]], dtype=object),
}
wanted = {one.name: feed[one.name] for one in session.get_inputs()}
label, probabilities = session.run(["label", "probabilities"], wanted)
print("labels:", label.tolist(), "probabilities:", probabilities.round(3).tolist())

same = pl.DataFrame(
    {"age": [23, 71], "income": [None, 31_000.0], "job": ["smith", None], "town": ["town 7", "a town of which …"]}
)
print("largest difference:", float(np.abs(model.predict(same).to_numpy() - probabilities[:, 1]).max()))
assert np.abs(model.predict(same).to_numpy() - probabilities[:, 1]).max() < 1e-6
