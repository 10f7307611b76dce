"""Estimators of scikit-learn that several processes fit together, each with its rows."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
import scipy.sparse as sp
from polars_taiga.sklearn import (
    ForestRegressor,
    GbdtClassifier,
    GbdtRanker,
    GbdtRegressor,
    SparseLogisticRegression,
)

from tests.collective_worker import free_port

NAMES = [f"x{i}" for i in range(4)]


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.round(np.random.default_rng(0).normal(size=(400, 4)) * 64) / 64


@pytest.fixture(scope="module")
def flag(x: np.ndarray) -> np.ndarray:
    return (x[:, 0] > x[:, 1]).astype(int)


def table(x: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame(x, schema=NAMES)


TOGETHER = """
import pickle, sys
import numpy as np, polars as pl, polars_taiga as tg
from polars_taiga import sklearn as ours
rank, address, cls, params = int(sys.argv[1]), sys.argv[2], sys.argv[3], pickle.loads(bytes.fromhex(sys.argv[4]))
rows = np.arange(60)
x = np.column_stack([rows * 7 % 13, rows % 5]).astype(float)
# One process lacks a label, and has one that the other lacks.
y = {"text": np.array(["a", "b", "long label"])[(rows > 20) * 1 + (rows > 45)], "flag": rows > 20,
     "number": rows * 1.5, "whole": (rows > 20) * 3}[sys.argv[5]]
own = slice(0, 40) if rank == 0 else slice(40, 60)
us = tg.Collective(rank=rank, world=2, address=address, secret="a cedar of Lebanon")
est = getattr(ours, cls)(**params)
if len(sys.argv) > 6:
    us, own = None, slice(0, 60)
est.fit(x[own], y[own], collective=us)
print(pickle.dumps((est.model_.to_bytes(), getattr(est, "classes_", None), est.predict(x))).hex())
"""


@pytest.mark.parametrize(
    ("cls", "params", "target"),
    [
        ("GbdtClassifier", {"rounds": 4}, "text"),
        ("GbdtClassifier", {"rounds": 4}, "flag"),
        ("GbdtClassifier", {"rounds": 4, "loss": "logloss"}, "whole"),
        ("GbdtRegressor", {"rounds": 4}, "number"),
        ("ForestClassifier", {"trees": 4}, "whole"),
        ("ForestRegressor", {"trees": 4}, "number"),
        ("SparseLogisticRegression", {}, "text"),
    ],
)
def test_several_processes_fit_an_estimator_together(cls: str, params: dict[str, Any], target: str) -> None:
    """Each has the model and the classes of all rows."""
    address = f"127.0.0.1:{free_port()}"

    def start(rank: int, *alone: str) -> subprocess.Popen[str]:
        given = [str(rank), address, cls, pickle.dumps(params).hex(), target, *alone]
        return subprocess.Popen([sys.executable, "-c", TOGETHER, *given], stdout=subprocess.PIPE, text=True)

    made = []
    for process in [start(0), start(1), start(0, "alone")]:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        made.append(pickle.loads(bytes.fromhex(out)))
    # Of one process the estimator names the loss that labels come to.
    named = cls != "GbdtClassifier" or "loss" in params
    for model, classes, predicted in made[:2]:
        assert model == made[0][0]
        assert model == made[2][0] if named else tg.Model(model).trees().equals(tg.Model(made[2][0]).trees())
        assert np.array_equal(predicted, made[2][2])
        if classes is not None:
            assert classes.tolist() == made[2][1].tolist()
            assert classes.dtype.kind == made[2][1].dtype.kind


FEW = """
import pickle, sys
import numpy as np, pandas as pd, polars as pl, polars_taiga as tg, scipy.sparse as sp
from polars_taiga import sklearn as ours
rank, address, few = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rows = np.arange(80)
own = [slice(0, 80 - few), slice(80 - few, 80), slice(0, 80)][rank]
held = [slice(0, 0), slice(0, 9), slice(0, 9)][rank]
us = None if rank == 2 else tg.Collective(rank=rank, world=2, address=address, secret="a cedar of Lebanon", timeout=60)
x = np.column_stack([rows * 7 % 13, rows % 5, rows % 3]).astype(float)
text = np.array(["a", "b", "long label"])[(rows > 20) * 1 + (rows > 45)]
frame = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(t=pl.Series(text), n=pl.Series(rows * 3))
pandas = pd.DataFrame(x, columns=["a", "b", "c"])
pandas = pandas.assign(t=text, k=pd.Categorical(rows % 4), d=pd.to_datetime(rows, unit="D"))
# The rows of a process with few have no weight.
weight = (rows < 80 - few) * (rows % 3 + 0.5)
number, two, labels = rows * 1.5, np.column_stack([rows, rows % 7]) * 1.0, np.column_stack([rows % 2, rows > 9]) * 1
day = pl.Series(rows[::-1]).cast(pl.Date)
empty = [] if few == 0 and rank == 1 else None
fits = {
    "array": (ours.GbdtRegressor(rounds=3, categorical=[1]), x[own], number[own], {"sample_weight": weight[own]}),
    "integers": (ours.GbdtRegressor(rounds=3), x.astype(np.int32)[own], number[own], {"row_key": rows[own]}),
    "order": (ours.GbdtRegressor(rounds=3, categorical=[True, False, False]), x[own], number[own],
              {"order_by": day[own], "eval_set": (x[held], number[held])}),
    "frame": (ours.GbdtRegressor(rounds=3), frame[own], number[own] if empty is None else empty, {}),
    "pandas": (ours.ForestRegressor(trees=3), pandas[own], pd.Series(number)[own], {}),
    "targets": (ours.GbdtRegressor(rounds=3), x[own], two[own], {}),
    "labels": (ours.GbdtClassifier(rounds=3), x[own], labels[own], {}),
    "text": (ours.GbdtClassifier(rounds=3, loss="multiclass"), frame[own], text[own], {}),
    "flags": (ours.GbdtClassifier(rounds=3, loss="logloss"), x[own], (rows > 30)[own], {"sample_weight": weight[own]}),
    "column": (ours.ForestClassifier(trees=3), x[own], pl.Series(text[own], dtype=pl.String), {}),
    "whole": (ours.GbdtClassifier(rounds=3, loss="logloss"), x[own], (rows > 30)[own] * 3, {}),
    "lists": (ours.SparseLogisticRegression(), sp.csr_array(x)[own], text[own], {}),
    "sparse": (ours.GbdtRegressor(rounds=3), sp.csr_array(x)[own], number[own], {}),
    "ranks": (ours.GbdtRanker(rounds=3), x[own], rows[own] % 3, {"group": rows[own] % 6, "position": rows[own] % 5}),
}
made = {}
for name, (est, X, y, given) in fits.items():
    est.fit(X, y, collective=us, **given)
    whole = {"frame": frame, "pandas": pandas, "text": frame}.get(name, x)
    made[name] = (est.model_.to_bytes(), getattr(est, "classes_", np.array([])).tolist(), est.predict(whole))
    try:
        est.predict(whole[:0])
    except ValueError as error:
        assert "0 sample(s)" in str(error), error
    else:
        raise AssertionError(name)
wrong = np.empty((0, 3), dtype=np.int64) if few == 0 and rank == 1 else x[own]
if rank < 2 and few == 0:
    try:
        ours.GbdtRegressor(rounds=3).fit(wrong, number[own], collective=us)
    except ValueError as error:
        made["wrong"] = str(error)
print(pickle.dumps(made).hex())
"""


@pytest.mark.parametrize("few", [0, 1])
def test_a_process_may_have_a_row_or_none(few: int) -> None:
    """Proves that all have the model of all rows then, in tables of any kind, whatever else is given."""
    address = f"127.0.0.1:{free_port()}"
    processes = [
        subprocess.Popen([sys.executable, "-c", FEW, str(rank), address, str(few)], stdout=subprocess.PIPE, text=True)
        for rank in range(3)
    ]
    made = []
    for process in processes:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        made.append(pickle.loads(bytes.fromhex(out)))
    for name, (model, classes, predicted) in made[2].items():
        for one in made[:2]:
            assert one[name][0] == model, name
            assert one[name][1] == classes, name
            assert np.array_equal(one[name][2], predicted), name
    for one in made[:2] if few == 0 else []:
        assert "the columns of rank 1 differ from those of rank 0: `features[0]` is" in one["wrong"]


def test_few_rows_are_an_error_without_a_collective(x: np.ndarray, flag: np.ndarray) -> None:
    for rows, text in ((0, "0 sample"), (1, "1 sample")):
        for data in (x[:rows], table(x)[:rows], sp.csr_array(x)[:rows]):
            for est in (GbdtRegressor(), GbdtClassifier(), GbdtRanker(), ForestRegressor(), SparseLogisticRegression()):
                with pytest.raises(ValueError, match=text):
                    est.fit(data, flag[:rows])
    us = tg.Collective(rank=0, world=2, address="127.0.0.1:9", secret="s" * 16)
    with pytest.raises(ValueError, match="y has no rows: with `collective` it needs the others' type of labels"):
        GbdtClassifier().fit(x[:0], [], collective=us)
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        GbdtRegressor().fit(table(x).select([])[:0], [], collective=us)


def test_labels_that_are_numbers_need_a_loss_in_a_collective(x: np.ndarray, flag: np.ndarray) -> None:
    """No process knows how many there are; and held-out rows have no keys to be dealt by."""
    us = tg.Collective(rank=0, world=2, address="127.0.0.1:9", secret="s" * 16)
    with pytest.raises(ValueError, match=r'`loss`: "auto" counts the labels.*name "logloss" or "multiclass"'):
        GbdtClassifier(rounds=2).fit(x, flag * 1, collective=us)
    with pytest.raises(ValueError, match="row_key: the rows of eval_set have no keys"):
        GbdtRegressor(rounds=2).fit(x, flag * 1.0, eval_set=(x, flag), row_key=np.arange(len(x)), collective=us)


def in_two_threads(fit: Any) -> list[Any]:
    """What `fit(rank, collective)` gives in each of two ranks, which are threads of this process."""
    address = f"127.0.0.1:{free_port()}"
    ranks = [tg.Collective(rank=k, world=2, address=address, secret="pine", timeout=20) for k in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(fit, (0, 1), ranks))


def test_labels_beyond_the_type_of_a_part(x: np.ndarray) -> None:
    """Proves that a process whose labels are of a narrow type has the others' labels as they are."""
    y = np.arange(400) % 3
    parts = [(x[:300], np.where(y[:300] == 2, 300, y[:300])), (x[300:], np.minimum(y[300:], 1).astype(np.int8))]

    def fit(rank: int, us: tg.Collective) -> Any:
        est = GbdtClassifier(rounds=3, loss="multiclass").fit(*parts[rank], collective=us)
        return est.classes_.tolist(), est.predict(x)

    (classes, predicted), (others, also) = in_two_threads(fit)
    assert classes == others == [0, 1, 300]
    assert np.array_equal(predicted, also)
    assert 300 in also


def test_held_out_labels_that_others_train_on(x: np.ndarray) -> None:
    """Proves that a label of held-out rows may be one that another process alone trains on."""
    y = np.array(["a", "b", "c"])[np.arange(400) % 3]
    first = np.flatnonzero((y != "c") & (np.arange(400) < 300))
    parts = [first, np.arange(300, 400)]

    def fit(rank: int, us: tg.Collective) -> Any:
        est = GbdtClassifier(rounds=3, loss="multiclass")
        held = (x[:30], y[:30]) if rank == 0 else (x[:0], y[:0])
        return est.fit(x[parts[rank]], y[parts[rank]], eval_set=held, collective=us).classes_.tolist()

    assert in_two_threads(fit) == [["a", "b", "c"]] * 2
