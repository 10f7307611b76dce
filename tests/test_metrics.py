"""`tg.metrics` against scikit-learn, in groups, and whatever the threads and chunks; metrics of one's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

ONE = 1e-12


def table(rows: int, seed: int, ties: int = 7) -> pl.DataFrame:
    """Two classes with probabilities that tie often, three classes with a struct of them, numbers, weights, groups."""
    random = np.random.default_rng(seed)
    three = random.dirichlet([1.0, 1.0, 1.0], rows)
    return pl.DataFrame(
        {
            "y": random.integers(0, 2, rows),
            "p": np.round(random.random(rows) * ties) / ties,
            "k": random.choice(["a", "b", "c"], rows),
            "n": random.gamma(2.0, 2.0, rows),
            "m": random.gamma(2.0, 2.0, rows) + 0.01,
            "w": random.gamma(1.0, 3.0, rows) * random.integers(0, 4, rows),
            "call": random.integers(0, 2, rows),
            "named": random.choice(["a", "b", "c"], rows),
            "q": random.integers(0, max(rows // 20, 1), rows),
        }
    ).with_columns(s=pl.struct(a=pl.Series(three[:, 0]), b=pl.Series(three[:, 1]), c=pl.Series(three[:, 2])))


def shares(df: pl.DataFrame) -> Any:
    """The struct of probabilities as an array."""
    return df["s"].struct.unnest().to_numpy()


NUMBERS = {
    "rmse": (tg.metrics.rmse, sk.root_mean_squared_error),
    "mae": (tg.metrics.mae, sk.mean_absolute_error),
    "r2": (tg.metrics.r2, sk.r2_score),
    "mape": (tg.metrics.mape, sk.mean_absolute_percentage_error),
    "rmsle": (tg.metrics.rmsle, sk.root_mean_squared_log_error),
    "poisson": (tg.metrics.poisson_deviance, sk.mean_poisson_deviance),
    "gamma": (tg.metrics.gamma_deviance, sk.mean_gamma_deviance),
}
CLASSES = {
    "logloss": (tg.metrics.logloss, lambda y, p, **kw: sk.log_loss(y, p, labels=[0, 1], **kw)),
    "auc": (tg.metrics.auc, sk.roc_auc_score),
    "average_precision": (tg.metrics.average_precision, sk.average_precision_score),
    "accuracy": (tg.metrics.accuracy, lambda y, p, **kw: sk.accuracy_score(y, p > 0.5, **kw)),
    "balanced_accuracy": (
        tg.metrics.balanced_accuracy,
        lambda y, p, **kw: sk.balanced_accuracy_score(y, p > 0.5, **kw),
    ),
    "f1": (tg.metrics.f1, lambda y, p, **kw: sk.f1_score(y, p > 0.5, **kw)),
    "mcc": (tg.metrics.mcc, lambda y, p, **kw: sk.matthews_corrcoef(y, p > 0.5, **kw)),
}


def of_scikit_learn(f: Any, y: Any, p: Any, w: Any) -> tuple[float, float]:
    """Without weights and with them."""
    return float(f(y, p)), float(f(y, p, sample_weight=w))


def near(a: float, b: float) -> bool:
    return abs(a - b) <= ONE * max(1.0, abs(b))


@pytest.mark.parametrize("rows", [2, 3, 40, 5_000, 300_000])
def test_numbers_are_those_of_scikit_learn(rows: int) -> None:
    """With weights, of which some are 0."""
    df = table(rows, rows).with_columns(w=pl.col("w") + (pl.int_range(pl.len()) < 2))
    for name, (own, theirs) in NUMBERS.items():
        plain, weighed = of_scikit_learn(theirs, df["n"].to_numpy(), df["m"].to_numpy(), df["w"].to_numpy())
        got = df.select(a=own("n", "m"), b=own("n", "m", weight="w")).row(0)
        assert near(got[0], plain), (name, got, plain)
        assert near(got[1], weighed), (name, got, weighed)
    for alpha in (0.1, 0.5, 0.93):
        got = df.select(tg.metrics.pinball("n", "m", alpha=alpha, weight="w")).item()
        assert near(got, sk.mean_pinball_loss(df["n"], df["m"], alpha=alpha, sample_weight=df["w"]))
    got = df.select(tg.metrics.tweedie_deviance("n", "m", power=1.3, weight="w")).item()
    assert near(got, sk.mean_tweedie_deviance(df["n"], df["m"], power=1.3, sample_weight=df["w"]))


@pytest.mark.parametrize(("rows", "ties"), [(30, 3), (500, 7), (5_000, 1_000), (300_000, 50)])
def test_two_classes_are_those_of_scikit_learn(rows: int, ties: int) -> None:
    """Of probabilities with many ties, of Booleans too."""
    df = table(rows, rows, ties)
    y, p, w = df["y"].to_numpy(), df["p"].to_numpy(), df["w"].to_numpy()
    for name, (own, theirs) in CLASSES.items():
        plain, weighed = of_scikit_learn(theirs, y, p, w)
        got = df.select(a=own("y", "p"), b=own("y", "p", weight="w"), c=own(pl.col("y") == 1, "p")).row(0)
        assert near(got[0], plain), (name, got, plain)
        assert near(got[1], weighed), (name, got, weighed)
        assert got[0] == got[2], name


def test_a_struct_of_probabilities_is_of_several_classes() -> None:
    """Each field a class, as `predict` gives it."""
    df = table(4_000, 1)
    y, p, w = df["k"].to_numpy(), shares(df), df["w"].to_numpy()
    call = np.array(["a", "b", "c"])[p.argmax(1)]
    wanted = {
        "logloss": (tg.metrics.logloss("k", "s", weight="w"), sk.log_loss(y, p, sample_weight=w)),
        "auc": (tg.metrics.auc("k", "s", weight="w"), sk.roc_auc_score(y, p, multi_class="ovr", sample_weight=w)),
        "auc_weighted": (
            tg.metrics.auc("k", "s", weight="w", average="weighted"),
            sk.roc_auc_score(y, p, multi_class="ovr", average="weighted", sample_weight=w),
        ),
        "ap": (tg.metrics.average_precision("k", "s"), sk.average_precision_score(y, p)),
        "accuracy": (tg.metrics.accuracy("k", "s", weight="w"), sk.accuracy_score(y, call, sample_weight=w)),
        "f1": (tg.metrics.f1("k", "s", weight="w"), sk.f1_score(y, call, average="macro", sample_weight=w)),
        "f1_weighted": (tg.metrics.f1("k", "s", average="weighted"), sk.f1_score(y, call, average="weighted")),
        "f1_micro": (tg.metrics.f1("k", "s", average="micro"), sk.f1_score(y, call, average="micro")),
        "balanced": (tg.metrics.balanced_accuracy("k", "s"), sk.balanced_accuracy_score(y, call)),
        "mcc": (tg.metrics.mcc("k", "s", weight="w"), sk.matthews_corrcoef(y, call, sample_weight=w)),
    }
    got = df.select(**{name: expr for name, (expr, _) in wanted.items()}).row(0, named=True)
    for name, (_, value) in wanted.items():
        assert near(got[name], float(value)), (name, got[name], value)


def test_predicted_labels() -> None:
    """Text, Booleans and integers; two labels by `positive`."""
    df = table(3_000, 2)
    y, c, k, n = (df[name].to_numpy() for name in ("y", "call", "k", "named"))
    row = df.select(
        a=tg.metrics.f1("y", "call"),
        b=tg.metrics.f1("k", "named"),
        c=tg.metrics.mcc("k", "named"),
        d=tg.metrics.accuracy("k", pl.col("named").cast(pl.Categorical)),
        e=tg.metrics.f1("k", "named", positive="b"),
        f=tg.metrics.balanced_accuracy(pl.col("y") + 5, pl.col("call") + 5),
        g=tg.metrics.f1(pl.col("y") == 1, pl.col("call") == 1),
    ).row(0)
    wanted = [
        sk.f1_score(y, c),
        sk.f1_score(k, n, average="macro"),
        sk.matthews_corrcoef(k, n),
        sk.accuracy_score(k, n),
        sk.f1_score(k == "b", n == "b"),
        sk.balanced_accuracy_score(y, c),
        sk.f1_score(y, c),
    ]
    assert all(near(a, float(b)) for a, b in zip(row, wanted, strict=True)), (row, wanted)


def test_calibration_error_is_its_definition() -> None:
    """Bins as `numpy.linspace` has their edges."""
    df = table(5_000, 3, ties=30)
    y, p, w = df["y"].to_numpy(), df["p"].to_numpy(), df["w"].to_numpy()
    for bins in (1, 10, 15):
        place = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], p)
        wanted = sum(abs(np.sum((w * (y - p))[place == b])) for b in range(bins)) / w.sum()
        assert near(df.select(tg.metrics.ece("y", "p", bins=bins, weight="w")).item(), float(wanted))
    s = shares(df)
    hit = np.array(["a", "b", "c"])[s.argmax(1)] == df["k"].to_numpy()
    place = np.searchsorted(np.linspace(0, 1, 16)[1:-1], s.max(1))
    wanted = sum(abs(np.sum((hit - s.max(1))[place == b])) for b in range(15)) / len(hit)
    assert near(df.select(tg.metrics.ece("k", "s")).item(), float(wanted))


def test_ranking_is_the_mean_of_its_groups() -> None:
    """NDCG as scikit-learn's of gains `2^grade - 1`, ties and all."""
    df = table(2_000, 4, ties=5).with_columns(grade=pl.col("n").floor().clip(0, 4).cast(pl.Int32))
    for k in (1, 5, None):
        wanted = [
            sk.ndcg_score([2.0 ** g["grade"].to_numpy() - 1], [g["p"].to_numpy()], k=k)
            if g["grade"].max() > 0 and g.height > 1
            else 1.0
            for g in df.partition_by("q")
        ]
        assert near(df.select(tg.metrics.ndcg("grade", "p", group="q", k=k)).item(), float(np.mean(wanted)))
    assert 0 < df.select(tg.metrics.mrr("y", "p", group="q")).item() <= 1
    assert 0 < df.select(tg.metrics.map("y", "p", group="q", k=3)).item() <= 1
    assert 0 < df.select(tg.metrics.precision_at_k("y", "p", group="q", k=3)).item() <= 1


def test_chunks_threads_and_the_way_in_leave_no_trace() -> None:
    """Bits of `select`, `over` and `group_by`, of one chunk and of many, lazy and streamed."""
    df = table(50_000, 5).with_columns(g=pl.int_range(pl.len()) % 3)
    many = pl.concat([df[i : i + 7_001] for i in range(0, df.height, 7_001)], rechunk=False)
    exprs = [
        tg.metrics.auc("y", "p", weight="w"),
        tg.metrics.logloss("y", "p", weight="w"),
        tg.metrics.average_precision("k", "s"),
        tg.metrics.rmse("n", "m"),
        tg.metrics.f1("y", "p", weight="w"),
        tg.metrics.ece("y", "p", weight="w"),
        tg.metrics.ndcg("y", "p", group="q", k=5),
    ]
    one = df.select(exprs)
    assert one.equals(many.select(exprs))
    assert one.equals(df.lazy().select(exprs).collect())
    grouped = df.group_by("g", maintain_order=True).agg(exprs)
    for g in range(3):
        alone = df.filter(g=g).select(exprs)
        assert grouped.filter(g=g).drop("g").equals(alone)
        assert df.with_columns(v=exprs[0].over("g")).filter(g=g)["v"].unique().item() == alone["auc"].item()


def test_the_order_of_rows_leaves_no_trace_in_metrics_of_order_and_of_calls() -> None:
    """With weights of any size."""
    df = table(5_000, 6, ties=40).with_columns(w=pl.col("w") ** 5)
    turned = df.sample(fraction=1.0, shuffle=True, seed=1)
    for own in (
        tg.metrics.auc,
        tg.metrics.average_precision,
        tg.metrics.f1,
        tg.metrics.balanced_accuracy,
        tg.metrics.mcc,
    ):
        assert df.select(own("y", "p", weight="w")).equals(turned.select(own("y", "p", weight="w")))


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.floats(0.01, 100)), min_size=1, max_size=30),
    power=st.integers(-300, 300),
)
@settings(max_examples=60, deadline=None)
def test_a_factor_on_weights_changes_nothing(rows: list[tuple[int, int, float]], power: int) -> None:
    """However small or large the weights become; metrics that have no value have none either way."""
    df = pl.DataFrame(rows, schema=["y", "p", "w"], orient="row").with_columns(pl.col("p") / 5)
    scaled = df.with_columns(w=pl.col("w") * 10.0**power)
    for own in (tg.metrics.auc, tg.metrics.logloss, tg.metrics.f1, tg.metrics.average_precision, tg.metrics.ece):
        expr = own("y", "p", weight="w", on_error="null")
        a, b = df.select(expr).item(), scaled.select(expr).item()
        assert (a is None) == (b is None)
        assert a is None or near(a, b)


def test_gains_of_any_grade_are_finite() -> None:
    """Proves that `ndcg` has a value where `2^grade`, or a sum of such, is beyond f64."""
    df = pl.DataFrame({"y": [2000.0, 1.0, 0.0], "p": [0.1, 0.2, 0.3], "even": [1023.0] * 3, "q": [1, 1, 1]})
    assert near(df.select(tg.metrics.ndcg("y", "p", group="q")).item(), 0.5)
    assert near(df.select(tg.metrics.ndcg("even", "p", group="q")).item(), 1.0)


def test_what_can_not_be_measured_is_an_error_that_names_it() -> None:
    """Nulls, NaN, classes that there are not, and parameters."""
    df = table(50, 7)
    nulls = df.with_columns(y=pl.when(pl.int_range(pl.len()) > 0).then("y"), p=pl.lit(float("nan")))
    cases: list[tuple[pl.DataFrame, pl.Expr, str]] = [
        (nulls, tg.metrics.auc("y", "w"), "`y`: 1 of 50 values are null"),
        (nulls, tg.metrics.auc("call", "p"), "`p`: 50 of 50 values are NaN"),
        (df.with_columns(w=-pl.col("w")), tg.metrics.rmse("n", "m", weight="w"), "`w`: it is -"),
        (df, tg.metrics.logloss("n", "p"), "`n`: it is .* is no class"),
        (df, tg.metrics.logloss("y", "n"), "`n`: it is .* a probability is between 0 and 1"),
        (df, tg.metrics.auc("k", "p"), "`k`: its labels are text: say by `positive=`"),
        (df, tg.metrics.auc("named", pl.struct(a="p", b="p")), '`named`: "c" is none of the classes'),
        (df, tg.metrics.f1("y", "named"), "`named`: its type is"),
        (df, tg.metrics.logloss("y", "named"), "`named`: its type is"),
        (df, tg.metrics.rmse("n", "s"), "`s`: it is a struct"),
        (df, tg.metrics.rmse("k", "m"), "`k`"),
        (df, tg.metrics.gamma_deviance("y", "m"), "`y`: it is 0 in row .*targets above 0"),
        (df, tg.metrics.poisson_deviance("n", -pl.col("m")), "predictions above 0"),
        (df.filter(y=1), tg.metrics.auc("y", "p"), "one class"),
        (df.clear(), tg.metrics.auc("y", "p"), "no rows"),
        (df, tg.metrics.auc("y", "p", weight=pl.col("w") * 0), "all rows weigh zero"),
        (df, tg.metrics.ndcg("y", "p", group=pl.lit(None, pl.Int32)), "group"),
        (df, tg.metrics.ndcg(pl.lit(-1) - pl.col("y"), "p", group=pl.lit(1)), "a grade is negative"),
        (df.head(1), tg.metrics.r2("n", "m"), "fewer than two rows that count"),
        (df, tg.metrics.r2("n", "m", weight=pl.int_range(pl.len()) == 0), "fewer than two rows that count"),
    ]
    for frame, expr, text in cases:
        with pytest.raises(pl.exceptions.PolarsError, match=text):
            frame.select(expr)
    with pytest.raises(ValueError, match="metric"):
        tg.score("model", "y", metric="acuracy")
    assert df.filter(y=1).select(tg.metrics.auc("y", "p", on_error="null")).item() is None
    assert nulls.select(tg.metrics.auc("y", "w", on_error="null")).item() is None


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("pinball", {"alpha": 1.5}, "`alpha`: 1.5 is not a level inside"),
        ("expectile", {"alpha": float("nan")}, "`alpha`: nan is not a level inside"),
        ("pinball", {"alpha": "x"}, "`alpha`: 'x' is not a level inside"),
        ("huber", {"delta": 0}, "`delta`: 0 is not a positive number"),
        ("mape", {"floor": -1}, "`floor`: -1 is not a positive number"),
        ("tweedie_deviance", {"power": 3}, "`power`: 3 is not a power inside"),
        ("ece", {"bins": 0}, "`bins`: 0 is not a number of bins from 1 to 10,000"),
        ("ece", {"bins": 10_001}, "`bins`: 10001 is not"),
        ("auc", {"average": "micro"}, "`average`: 'micro' is not one of 'macro', 'weighted'"),
        ("average_precision", {"average": "micro"}, "`average`: 'micro'"),
        ("f1", {"average": 1}, "`average`: 1 is not one of 'macro', 'weighted', 'micro'"),
        ("ndcg", {"group": "q", "k": 0}, "`k`: 0 is not a number of places from 1 on"),
        ("map", {"group": "q", "k": 2.5}, "`k`: 2.5 is not"),
        ("mrr", {"group": "q", "k": True}, "`k`: True is not"),
        ("precision_at_k", {"group": "q", "k": 0}, "`k`: 0 is not"),
        ("precision_at_k", {"group": "q", "k": None}, "`k`: None is not"),
    ],
)
def test_a_parameter_that_is_wrong_is_named(name: str, params: dict[str, Any], text: str) -> None:
    """Proves that an expression's errors name its function and its own parameter."""
    with pytest.raises((TypeError, ValueError), match=f"metrics.{name}: parameter {text}"):
        getattr(tg.metrics, name)("y", "p", **params)


def test_numbers_of_numpy_are_numbers() -> None:
    """Proves that parameters are the same as Python's numbers and NumPy's."""
    df = table(50, 7)
    for ours, theirs in [
        (tg.metrics.pinball("n", "m", alpha=0.25), tg.metrics.pinball("n", "m", alpha=np.float32(0.25))),
        (tg.metrics.mape("n", "m", floor=0.5), tg.metrics.mape("n", "m", floor=np.float64(0.5))),
        (tg.metrics.ece("y", "p", bins=5), tg.metrics.ece("y", "p", bins=np.int32(5))),
    ]:
        assert df.select(ours).item() == df.select(theirs).item()


def test_class_weights_are_in_held_out_metrics_alone() -> None:
    """Proves what docs/metrics.md says: a fit weighs held-out rows by them, `tg.score` by `weight` alone."""
    df = table(300, 3).with_columns(held=pl.int_range(300) % 2 == 0)
    fit: dict[str, Any] = {"eval": "held", "metric": "logloss", "rounds": 2, "loss": "logloss"}
    history = df.taiga.fit_gbdt("y", "p", class_weight={0: 1, 1: 5}, **fit)
    held = df.filter("held")
    assert history.history is not None
    last = history.history["logloss"][-1]
    weight = pl.when(pl.col("y") == 1).then(5.0).otherwise(1.0)
    assert held.select(tg.score(history, "y", weight=weight)).item() == pytest.approx(last)
    assert held.select(tg.score(history, "y")).item() != pytest.approx(last)


def test_a_model_s_score_is_the_metric_of_its_predictions() -> None:
    """`tg.score` and `tg.metrics` are one."""
    df = table(2_000, 8)
    model = df.taiga.fit_gbdt("k", "n", "m", "p", rounds=10)
    two = df.taiga.fit_gbdt("y", "n", "m", "w", rounds=10, loss="logloss")
    row = df.select(
        a=tg.score(model, "k", metric="auc"),
        b=tg.metrics.auc("k", tg.predict(model)),
        c=tg.score(two, "y", metric="average_precision"),
        d=tg.metrics.average_precision("y", tg.predict(two)),
        e=tg.score(two, "y", metric="f1"),
        f=tg.metrics.f1("y", tg.predict(two)),
        g=tg.score(two, "y", metric="ece@10"),
        h=tg.metrics.ece("y", tg.predict(two), bins=10),
    ).row(0)
    for i in range(0, len(row), 2):
        assert row[i] == pytest.approx(row[i + 1], rel=1e-12), i
    ranked = df.taiga.fit_gbdt("y", "n", "m", group="q", rounds=3, loss="lambdarank")
    row = df.select(
        a=tg.score(ranked, "y", metric="ndcg@5", group="q"),
        b=tg.metrics.ndcg("y", tg.predict(ranked, output="raw"), group="q", k=5),
    ).row(0)
    assert row[0] == pytest.approx(row[1], rel=1e-12)


def test_metrics_of_ones_own() -> None:
    """Traced, in a fit, in a score, as an expression; recorded and shown."""
    df = table(2_000, 9).with_columns(held=pl.int_range(pl.len()) % 4 == 0)
    root = tg.metric(lambda y, p: tg.mean((y - p) ** 2).sqrt(), name="root")
    row = df.select(a=root("n", "m", weight="w"), b=tg.metrics.rmse("n", "m", weight="w")).row(0)
    assert row[0] == pytest.approx(row[1], rel=1e-13)
    assert tg.metric("sqrt(mean((y - p) ** 2))", name="root") == root
    assert eval(repr(root).replace("metric(", "tg.metric(").replace("sqrt(mean", "np.sqrt(tg.mean")) == root
    assert pickle.loads(pickle.dumps(root)) == root == copy.deepcopy(root)

    def share(y: Any, p: Any, m: Any) -> Any:
        return tg.mean(m * (abs(y - p) < 1)) / tg.mean(m)

    close = tg.metric(share, larger_is_better=True)
    assert (close.name, close.columns, close.larger_is_better) == ("share", ["m"], True)
    model = df.taiga.fit_gbdt("n", "p", "w", rounds=8, eval="held", metric=[close, root, "rmse"])
    history = model.history
    assert history.columns == ["round", "share", "root", "rmse", "best"]
    assert history["root"].to_numpy() == pytest.approx(history["rmse"].to_numpy(), rel=1e-12)
    assert history["share"].arg_max() == history["best"].arg_max()
    held = df.filter("held")
    assert model.score(held, metric=close) == pytest.approx(history["share"][-1], rel=1e-5)
    assert held.select(close("n", tg.predict(model))).item() == pytest.approx(history["share"][-1], rel=1e-5)
    assert model.params["metric"] == [close, root, "rmse"]
    again = tg.Model.from_json(model.to_json())
    assert again == model
    assert again.params["metric"][0].larger_is_better


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda y, p: 3.0, "does not depend on the prediction"),
        (lambda y, p: tg.mean(y), "does not depend on the prediction"),
        (lambda y, p: tg.mean(y - p) * y, "outside of mean"),
        (lambda y, p: tg.mean(tg.mean(y - p)), "mean of a mean"),
        (lambda y, p: y if y > p else p, "neither true nor false"),
        (lambda y: y, "function of the target, the prediction"),
        (lambda y, p: p.median(), "has no `median`"),
        ("mean(y - q", "mean"),
    ],
)
def test_functions_that_are_no_metrics(function: Any, text: str) -> None:
    """Each says what is wrong."""
    with pytest.raises((TypeError, ValueError, AttributeError), match=text):
        tg.metric(function)


def test_held_out_sets_by_name() -> None:
    """Text that is null where rows train; the first in order decides; an Enum has an order of its own."""
    df = table(1_500, 10).with_columns(
        set=pl.when(pl.int_range(pl.len()) % 5 == 0)
        .then(pl.lit("south"))
        .when(pl.int_range(pl.len()) % 5 == 1)
        .then(pl.lit("north"))
    )
    fit = {"rounds": 6, "metric": ["rmse", "mae"]}
    model = df.taiga.fit_gbdt("n", "m", "p", eval="set", **fit)
    columns = ["round", "north_rmse", "north_mae", "south_rmse", "south_mae", "best"]
    assert model.history.columns == columns
    for name in ("north", "south"):
        rows = df.filter(set=name)
        assert model.score(rows, metric="mae") == pytest.approx(model.history[f"{name}_mae"][-1], rel=1e-5)
    for dtype in (pl.Categorical, pl.Enum(["north", "south", "unused"])):
        assert df.with_columns(pl.col("set").cast(dtype)).taiga.fit_gbdt("n", "m", "p", eval="set", **fit) == model
    turned = df.with_columns(pl.col("set").cast(pl.Enum(["south", "north"])))
    # In Polars 1 an Enum reaches a plugin as a Categorical.
    first = "north_rmse" if pl.__version__.startswith("1.") else "south_rmse"
    assert turned.taiga.fit_gbdt("n", "m", "p", eval="set", **fit).history.columns[1] == first
    plain = df.taiga.fit_gbdt("n", "m", "p", eval=pl.col("set").is_not_null(), rounds=6, eval_train=True)
    assert plain.history.columns == ["round", "rmse", "train_rmse", "best"]
    trained = df.filter(pl.col("set").is_null())
    assert plain.score(trained, metric="rmse") == pytest.approx(plain.history["train_rmse"][-1], rel=1e-5)
    assert df.select(tg.predict(plain)).equals(df.select(tg.predict(model)))
    with pytest.raises(pl.exceptions.PolarsError, match=r"`set`.*names a set for each.*pl.when"):
        df.drop_nulls("set").taiga.fit_gbdt("n", "m", eval="set")
    with pytest.raises(pl.exceptions.PolarsError, match=r"`k`.*names a set for each"):
        df.taiga.fit_gbdt("n", "m", eval="k")
    with pytest.raises(pl.exceptions.PolarsError, match=r"`set`.*holds out no row, and early_stopping"):
        df.filter(pl.col("set").is_null()).taiga.fit_gbdt("n", "m", eval="set", early_stopping=3)
    with pytest.raises(pl.exceptions.PolarsError, match=r"`q`.*names more than 100"):
        df.taiga.fit_gbdt(
            "n", "m", eval=pl.when(pl.col("set").is_not_null()).then(pl.int_range(pl.len()).cast(pl.String)).alias("q")
        )


def test_estimators_take_several_metrics_and_sets() -> None:
    """`eval_set` as a list, as in XGBoost and LightGBM."""
    from polars_taiga.sklearn import GbdtClassifier

    df = table(900, 11)
    x, y = df.select("n", "m", "p"), df["y"]
    est = GbdtClassifier(rounds=5, metric=["auc", "f1"], eval_train=True)
    est.fit(x[:500], y[:500], eval_set=[(x[500:700], y[500:700]), (x[700:], y[700:])])
    names = [f"{name}_{metric}" for name in ("valid_0", "valid_1", "train") for metric in ("auc", "f1")]
    assert est.model_.history.columns == ["round", *names, "best"]
    tg.plot.history(est.model_)
    ordered = GbdtClassifier(rounds=5, metric=["auc", "f1"], eval_train=True)
    sets = [(x[500:700], y[500:700]), (x[700:], y[700:])]
    # Without categories no statistic asks for the order.
    ordered.fit(x[:500], y[:500], eval_set=sets, order_by=np.arange(500))
    assert ordered.predict_proba(x).tolist() == est.predict_proba(x).tolist()
