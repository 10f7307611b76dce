"""Models as ONNX graphs: ONNX Runtime predicts what `tg.predict` does, on rows on every border and beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import polars_taiga as tg
import pytest

from tests import exported

ROWS = 100_000


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return exported.table()


@pytest.fixture(scope="module")
def models(table: pl.DataFrame) -> dict[str, tg.Model]:
    return exported.models(table)


def run(data: bytes, model: tg.Model, rows: pl.DataFrame) -> dict[str, np.ndarray]:
    """What ONNX Runtime makes of the rows of a frame, by output."""
    # Its threads wait awake, which takes the time of whatever else runs.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options)
    feed: dict[str, np.ndarray] = {}
    for one in session.get_inputs():
        dtype = np.float64 if one.type == "tensor(double)" else np.float32
        numbers = pl.Float64 if dtype is np.float64 else pl.Float32
        if one.name == "features":
            feed[one.name] = rows.select(pl.col(list(model.features)).cast(numbers).fill_null(np.nan)).to_numpy()
            feed[one.name] = np.ascontiguousarray(feed[one.name], dtype)
        elif one.type == "tensor(string)":
            feed[one.name] = rows[one.name].fill_null("").to_numpy().astype(object)[:, None]
        elif one.type == "tensor(int64)":
            feed[one.name] = rows[one.name].cast(pl.Int64).fill_null(-(2**63)).to_numpy()[:, None]
        else:
            feed[one.name] = rows[one.name].cast(numbers).fill_null(np.nan).to_numpy().astype(dtype)[:, None]
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def check(model: tg.Model, df: pl.DataFrame, dtype: Any, rows: int, **options: Any) -> None:
    """Compare both in numbers of a type: by 1e-6 in f32, whose sums are rounded, by 1e-14 in f64."""
    data = model.to_onnx(dtype=dtype, **options)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    frame = exported.on_borders(model, df, rows, dtype)
    found, ours = run(data, model, frame), exported.predicted(model, frame)
    theirs = found["prediction" if model.classes is None else "probabilities"].astype(np.float64)
    theirs = theirs.reshape(ours.shape)
    tolerance = (1e-6 if dtype == pl.Float32 else 1e-14) * max(1.0, np.abs(ours).max())
    assert np.abs(ours - theirs).max() < tolerance
    if model.classes is not None:
        # Classes may differ where two are as likely but for rounding.
        likeliest = np.sort(ours, axis=1)
        certain = pl.Series(likeliest[:, -1] - likeliest[:, -2] > 2 * tolerance)
        labels = pl.Series(found["label"].tolist())
        assert labels.dtype == (pl.Series(model.classes).dtype)
        same = labels.cast(pl.String) == model.predict(frame, output="class").cast(pl.String)
        assert certain.mean() > 0.9
        assert same.filter(certain).all()


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_runtime_predicts_what_we_do(models: dict[str, tg.Model], table: pl.DataFrame, dtype: Any) -> None:
    """Of every kind of model; of some of them 10^5 rows."""
    for name, model in models.items():
        check(model, table, dtype, ROWS if name in ("symmetric", "combinations", "partition") else 5_000)


def test_an_empty_text_is_null(models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    rows = table.head(500)
    empty = rows.with_columns(pl.col("text").fill_null(""))
    for name in ("combinations", "partition", "one_hot", "forest of two"):
        found = run(models[name].to_onnx(), models[name], empty)
        ours = exported.predicted(models[name], rows)
        assert np.abs(next(reversed(found.values())).reshape(ours.shape) - ours).max() < 1e-5


LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    **{loss: ("y", {}) for loss in ("rmse", "mae", "huber", "expectile", "mape", "log_cosh", "gaussian", "quantile")},
    **{loss: ("positive", {}) for loss in ("poisson", "gamma", "tweedie")},
    **{loss: ("two", {}) for loss in ("logloss", "focal")},
    **{loss: ("three", {}) for loss in ("multiclass", "ova")},
    **{loss: ("grade", {"group": "query"}) for loss in ("lambdarank", "pairwise", "xendcg", "yetirank")},
    "cross_entropy": ("share", {}),
    "cox": ("positive", {"event": "two"}),
    "aft": ("positive", {"event": "two"}),
    "quantiles": ("y", {"loss": "quantile", "alpha": [0.1, 0.5, 0.9]}),
    "multilabel": ("", {}),
    "own": ("y", {"loss": tg.loss(lambda y, f: (y - f) ** 2)}),
    "own log": ("positive", {"loss": tg.loss(lambda y, f: f.exp() - y * f, link="log")}),
    "own logit": ("share", {"loss": tg.loss(lambda y, f: (1 + f.exp()).log() - y * f, link="logit")}),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_every_link(loss: str, table: pl.DataFrame) -> None:
    target, params = LOSSES[loss]
    of = pl.struct("two", three=pl.col("three") == "low") if loss == "multilabel" else target
    model = table.taiga.fit_gbdt(of, exported.NUMBERS, rounds=4, **{"loss": loss, **params})
    for dtype in (pl.Float32, pl.Float64):
        check(model, table, dtype, 2_000)


def test_every_loss_is_tried() -> None:
    from typing import get_args

    from polars_taiga import gbdt

    known = {loss for loss in get_args(gbdt.Loss) if loss != "auto"}
    assert known <= {*LOSSES, "custom"}


def test_linear_models(table: pl.DataFrame) -> None:
    frame = table.select(pl.col("a", "b").fill_null(0).fill_nan(0), "two", "three", text=pl.concat_list("text"))
    for target in ("two", "three"):
        model = frame.taiga.fit_sparse_lr(target, dense=["b", "a"])
        for dtype, tolerance in ((pl.Float32, 1e-6), (pl.Float64, 1e-14)):
            found = run(model.to_onnx(dtype=dtype), model, frame)
            assert np.abs(exported.predicted(model, frame) - found["probabilities"]).max() < tolerance
            assert found["label"].tolist() == model.predict(frame, output="class").to_list()
    with pytest.raises(ValueError, match=r"reads the lists of `text` of strings, which are hashed"):
        frame.taiga.fit_sparse_lr("two", pl.col("text").list.drop_nulls(), hash_bits=8).to_onnx()


def test_inputs_and_outputs(models: dict[str, tg.Model], table: pl.DataFrame, tmp_path: Path) -> None:
    """One matrix or an input for each column; the file; what is said of the model; the same bytes again."""
    model = models["symmetric"]
    path = tmp_path / "model.onnx"
    data = model.to_onnx(path)
    assert path.read_bytes() == data == model.to_onnx()
    check(model, table, pl.Float32, 2_000, columns=True)
    graph = onnx.load_from_string(model.to_onnx(columns=True))
    assert [one.name for one in graph.graph.input] == ["a", "b"]
    assert {one.domain: one.version for one in graph.opset_import} == {"": 15, "ai.onnx.ml": 3}
    wide = onnx.load_from_string(models["partition"].to_onnx())
    assert {one.domain: one.version for one in wide.opset_import} == {"": 21, "ai.onnx.ml": 5}
    said = {p.key: p.value for p in onnx.load_from_string(models["targets"].to_onnx()).metadata_props}
    assert (said["taiga.target"], said["taiga.fields"]) == (models["targets"].target, '["y", "positive"]')
    with pytest.raises(ValueError, match="columns=False: column `text` has categories"):
        models["ctr"].to_onnx(columns=False)


def test_what_f32_can_not_hold(table: pl.DataFrame) -> None:
    when = table.with_columns(when=pl.from_epoch(pl.int_range(pl.len()) * 7919, time_unit="us"))
    model = when.taiga.fit_gbdt("y", "when", "a", rounds=3)
    frame = when.select("a", pl.col("when").cast(pl.Int64))
    found = run(model.to_onnx(), model, frame)["prediction"]
    assert np.array_equal(found, model.predict(when).to_numpy())
    with pytest.raises(ValueError, match=r"`when` is datetime\[us\], whose ticks"):
        model.to_onnx(dtype=pl.Float32)
    huge = table.taiga.fit_gbdt((pl.col("y") * 1e60).alias("y"), "a", rounds=3)
    check(huge, table, pl.Float64, 1_000)
    assert run(huge.to_onnx(), huge, table)["prediction"].dtype == np.float64
    with pytest.raises(ValueError, match="beyond what Float32 holds"):
        huge.to_onnx(dtype=pl.Float32)
    with pytest.raises(ValueError, match="neither"):
        huge.to_onnx(dtype=pl.Int8)


def test_names_and_nulls_that_collide(table: pl.DataFrame) -> None:
    frame = table.with_columns(text=pl.col("text").replace({"z": ""}), label="many")
    fit = frame.taiga.fit_gbdt
    with pytest.raises(ValueError, match="column 'label' is called as a part"):
        fit("y", "label", rounds=2).to_onnx()
    with pytest.raises(ValueError, match="`text` has both null and the empty text"):
        fit("y", "text", rounds=5).to_onnx()
    numbers = pl.DataFrame({"k": [-(2**63), None, 3] * 20, "y": [10.0, 0.0, 5.0] * 20})
    model = numbers.taiga.fit_gbdt("y", "k", rounds=5, categorical="k")
    with pytest.raises(ValueError, match=f"`k` has both null and {-(2**63)}, which stands for null, as categories"):
        model.to_onnx()
    without = numbers.drop_nulls().taiga.fit_gbdt("y", "k", rounds=5, categorical="k")
    check(without, numbers.drop_nulls().head(6), pl.Float64, 6)


def test_labels_of_every_type(table: pl.DataFrame) -> None:
    labels: dict[str, pl.Expr] = {
        "Boolean": pl.col("two"),
        "UInt8": pl.col("four").abs().cast(pl.UInt8),
        "Float64": pl.col("four") * 1.0,
        "String": pl.col("three").cast(pl.Enum(["top", "mid", "low"])),
    }
    for kind, label in labels.items():
        frame = table.with_columns(label.alias("t"))
        model = frame.taiga.fit_gbdt("t", "a", "b", rounds=3, loss="logloss" if kind == "Boolean" else "multiclass")
        found = run(model.to_onnx(), model, frame)["label"]
        ours = model.predict(frame, output="class").cast(getattr(pl, kind))
        assert found.tolist() == ours.to_list(), kind


def test_missing_package(models: dict[str, tg.Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx needs the package onnx: pip install 'polars-taiga\[onnx\]'"):
        models["symmetric"].to_onnx()
