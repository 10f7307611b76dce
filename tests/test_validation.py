"""Cross-validation inside queries: folds as scikit-learn makes them, models and values as those of single fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

FEATURES = ("a", "b", "c", "d")
FEW = {"rounds": 12, "learning_rate": 0.3}
OWN = tg.metric(lambda y, p: tg.mean(abs(y - p)), name="off")


@pytest.fixture(scope="module")
def levels(df: pl.DataFrame) -> pl.DataFrame:
    """The table with few values in each column, so that all of them are in all folds and borders are the same."""
    return df.with_columns(pl.col(*FEATURES).round(0).clip(-2, 2)).with_columns(
        fold=pl.int_range(pl.len()) * 7 % 3, s=pl.format("s{}", pl.col("group"))
    )


WAYS: list[dict[str, Any]] = [
    {},
    {"policy": "leafwise", "row_sample": "goss"},
    {"policy": "depthwise", "row_sample": "mvs", "feature_fraction": 0.7, "seed": 3},
    {"loss": "mae", "weight": "w"},
    {"loss": "huber", "categorical": ["d"], "n_threads": 1},
]


@pytest.mark.parametrize("params", WAYS)
def test_a_fold_is_a_fit_of_the_other_rows(levels: pl.DataFrame, params: dict[str, Any]) -> None:
    """To the byte; and its rows are predicted as by that model, in any chunks, lazily and streaming."""
    columns = (*FEATURES, "s") if "categorical" not in params else FEATURES
    table = levels.with_columns(pl.col("d").cast(pl.Int32)) if "categorical" in params else levels
    folds = table.select(tg.fit_folds("y", *columns, folds="fold", **FEW, **params)).unnest("folds")
    assert folds["fold"].to_list() == table["fold"].to_list()
    models = {}
    for k in range(3):
        alone = table.filter(pl.col("fold") != k).taiga.fit_gbdt("y", *columns, **FEW, **params)
        models[k] = alone
        assert folds.filter(fold=k)["model"].unique().to_list() == [alone.to_bytes()]
    expr = tg.cross_val_predict("y", *columns, folds=pl.col("fold"), **FEW, **params)
    wanted = pl.concat(
        [table.with_row_index().filter(fold=k).select("index", p=tg.predict(models[k])) for k in range(3)]
    ).sort("index")["p"]
    assert table.select(expr).to_series().to_list() == wanted.to_list()
    chunked = pl.concat([table[:700], table[700:]], rechunk=False)
    assert chunked.select(expr).to_series().to_list() == wanted.to_list()
    lazy = table.lazy().with_columns(p=expr).select("p")
    for engine in ("in-memory", "streaming"):
        assert lazy.collect(engine=engine)["p"].to_list() == wanted.to_list()  # type: ignore[call-overload]


@pytest.mark.parametrize("metric", ["rmse", ["mae", "r2"], None])
def test_what_is_measured_is_what_score_says(levels: pl.DataFrame, metric: Any) -> None:
    """Of each fold's rows by its own model, weights included."""
    folds = levels.taiga.cross_validate("y", *FEATURES, folds="fold", metric=metric, weight="w", models=True, **FEW)
    assert folds.select("fold", "train_rows", "test_rows", "rounds").rows() == [(k, 2000, 1000, 12) for k in range(3)]
    names = ["score"] if metric is None else [metric] if isinstance(metric, str) else metric
    assert folds.columns == ["fold", "train_rows", "test_rows", "rounds", *names, "model"]
    for k, model in enumerate(folds["model"]):
        for name in names:
            measured = None if name == "score" else name
            rows = levels.filter(fold=k)
            assert folds[name][k] == rows.select(tg.score(model, "y", *FEATURES, metric=measured, weight="w")).item()


def test_classes_have_their_share(df: pl.DataFrame) -> None:
    """Each fold has each class in proportion to a row, and another seed deals rows otherwise."""
    expr = tg.fit_folds("kind", *FEATURES, folds=7, rounds=2).struct.field("fold")
    table = df.with_columns(k=expr, other=tg.fit_folds("kind", *FEATURES, folds=7, rounds=2, seed=1).struct["fold"])
    sizes = table.group_by("kind", "k").len().group_by("kind").agg(spread=pl.col("len").max() - pl.col("len").min())
    assert sizes["spread"].max() <= 1  # type: ignore[operator]
    assert (
        table["k"].value_counts()["count"].to_list().count(428)
        + table["k"].value_counts()["count"].to_list().count(429)
        == 7
    )
    assert (table["k"] != table["other"]).mean() > 0.7  # type: ignore[operator]
    three = pl.Struct(dict.fromkeys(("low", "mid", "top"), pl.Float64))
    p = df.select(tg.cross_val_predict("kind", *FEATURES, dtype=three, folds=3, rounds=2)).unnest("prediction")
    assert (p.sum_horizontal() - 1).abs().max() < 1e-9  # type: ignore[operator]
    label = df.select(tg.cross_val_predict("kind", *FEATURES, output="class", dtype=pl.String, folds=3, **FEW))
    assert (label.to_series() == df["kind"]).mean() > 0.7  # type: ignore[operator]


def test_groups_stay_whole_as_scikit_learn_has_it() -> None:
    """Sizes of the parts are `GroupKFold`'s, who deals groups in the same way."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(40), rng.integers(1, 30, 40))
    x = rng.normal(size=len(group))
    df = pl.DataFrame({"x": x, "y": x + rng.normal(size=len(x)), "g": group})
    folds = df.with_columns(k=tg.fit_folds("y", "x", folds="group", fold_by="g", n_folds=4, rounds=2).struct["fold"])
    assert folds.group_by("g").agg(pl.col("k").n_unique())["k"].to_list() == [1] * 40
    theirs = [len(test) for _, test in GroupKFold(4).split(x, x, group)]
    assert sorted(folds["k"].value_counts()["count"]) == sorted(theirs)
    ranked = df.with_columns(r=pl.Series(rng.integers(0, 3, len(x))))
    values = ranked.taiga.cross_validate(
        "r", "x", folds="group", group="g", loss="lambdarank", metric="ndcg@3", early_stopping=3, rounds=10
    )
    assert values.height == 5
    assert values["ndcg@3"].is_between(0, 1).all()


@pytest.mark.parametrize("way", [{"loss": "lambdarank"}, {"loss": "yetirank"}, {"metric": "ndcg@3"}])
def test_what_ranks_groups_gets_whole_groups(way: dict[str, Any]) -> None:
    """Proves that a number of folds deals the groups of ranking losses and metrics as `"group"` does, everywhere."""
    rng = np.random.default_rng(4)
    df = pl.DataFrame({"r": rng.integers(0, 4, 200), "x": rng.normal(size=200), "q": rng.integers(0, 30, 200)})
    named: dict[str, Any] = {"folds": "group", "n_folds": 3, "group": "q", "rounds": 3, **way}
    number: dict[str, Any] = {"folds": 3, "group": "q", "rounds": 3, **way}
    folds = df.select("q", k=tg.fit_folds("r", "x", **number).struct.field("fold"))
    assert folds.group_by("q").agg(pl.col("k").n_unique())["k"].to_list() == [1] * folds["q"].n_unique()
    assert df.taiga.fit_folds("r", "x", **number).equals(df.taiga.fit_folds("r", "x", **named))
    assert df.taiga.cross_validate("r", "x", **number).equals(df.taiga.cross_validate("r", "x", **named))
    space = {"depth": [1, 2]}
    assert df.taiga.search("r", "x", space=space, **number).equals(df.taiga.search("r", "x", space=space, **named))
    predicted = [df.select(tg.cross_val_predict("r", "x", **folds)) for folds in (number, named)]
    assert predicted[0].equals(predicted[1])


@pytest.mark.parametrize("way", [{"loss": "pairwise"}, {"metric": "ndcg@3"}])
@pytest.mark.parametrize(
    "folds",
    [
        {"folds": "fold"},
        {"folds": pl.col("fold")},
        {"folds": "time", "n_folds": 3},
        {"folds": "group", "fold_by": "fold", "n_folds": 3},
    ],
)
def test_folds_that_divide_a_group_are_an_error(way: dict[str, Any], folds: dict[str, Any]) -> None:
    """Proves that no way to tell folds divides the groups of a ranking, and that the first group divided is named."""
    rows = pl.int_range(90, eager=True)
    df = pl.DataFrame({"r": rows % 4, "x": rows * 7 % 11, "q": rows % 30, "whole": rows % 30 % 3, "fold": rows % 4})
    params: dict[str, Any] = {"group": "q", "rounds": 3, **way}
    text = "parameter `folds`: divide the group that begins in row 0: the rows of a group"
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.taiga.cross_validate("r", "x", **params, **folds)
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.select(tg.cross_val_predict("r", "x", **params, **folds))
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.select(tg.fit_folds("r", "x", **params, **folds))
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.taiga.search("r", "x", space={"depth": [1, 2]}, **params, **folds)
    whole = {"fold_by": "whole", "n_folds": 3, "folds": "group"} if "fold_by" in folds else {"folds": "whole"}
    assert df.taiga.cross_validate("r", "x", **params, **whole).height == 3
    # What ranks nothing may be divided as one likes.
    df.taiga.cross_validate("r", "x", group="q", rounds=3, **folds)
    assert df.taiga.cross_validate("r", "x", group="q", rounds=3, folds=3).height == 3


def test_what_a_gaussian_loss_predicts_is_known(levels: pl.DataFrame) -> None:
    """Proves that `cross_val_predict` of `loss="gaussian"` needs no `dtype`."""
    params: dict[str, Any] = {"loss": "gaussian", "folds": "fold", **FEW}
    own = levels.select(tg.cross_val_predict("y", *FEATURES, **params)).unnest("prediction")
    assert own.columns == ["mean", "variance"]
    alone = levels.filter(pl.col("fold") != 1).taiga.fit_gbdt("y", *FEATURES, loss="gaussian", **FEW)
    wanted = levels.filter(fold=1).select(tg.predict(alone)).unnest("prediction")
    assert own.filter(levels["fold"] == 1).equals(wanted)


def test_seeds_of_numpy_are_seeds(df: pl.DataFrame) -> None:
    """Proves that folds are drawn by a NumPy integer as by Python's."""
    expr = [tg.fit_folds("y", "a", folds=3, rounds=2, seed=seed).struct.field("fold") for seed in (3, np.int64(3), 0)]
    by_int, by_numpy, other = (df.select(one).to_series().to_list() for one in expr)
    assert by_int == by_numpy != other


def test_time_runs_forward_as_scikit_learn_has_it() -> None:
    """Without ties the blocks are `TimeSeriesSplit`'s; with ties no time is on both sides."""
    rows = 120
    order = np.random.default_rng(1).permutation(rows)
    df = pl.DataFrame({"t": order, "x": order / 7}).with_columns(
        y=pl.col("x").sin(), day=pl.date(2024, 1, 1) + pl.duration(days=pl.col("t") // 9)
    )
    folds = df.with_columns(k=tg.fit_folds("y", "x", folds="time", fold_by="t", n_folds=5, rounds=2).struct["fold"])
    for k, (_, test) in enumerate(TimeSeriesSplit(5).split(np.arange(rows))):
        assert folds.filter(k=k)["t"].sort().to_list() == test.tolist()
    assert folds.filter(pl.col("k").is_null())["t"].sort().to_list() == list(range(20))
    days = df.taiga.cross_validate("y", "x", folds="time", fold_by="day", n_folds=3, rounds=2)
    assert days["train_rows"].is_sorted()
    tied = df.with_columns(k=tg.fit_folds("y", "x", folds="time", fold_by="day", n_folds=3, rounds=2).struct["fold"])
    assert tied.group_by("day").agg(pl.col("k").n_unique())["k"].max() == 1
    # The frame's own order.
    in_order = df.sort("t").select(tg.cross_val_predict("y", "x", folds="time", n_folds=5, rounds=2))
    assert in_order.to_series().is_null().sum() == 20


def test_rows_of_no_fold_are_in_all_fits(levels: pl.DataFrame) -> None:
    """Null in the column of folds: no prediction, and part of every model."""
    table = levels.with_columns(fold=pl.when(pl.col("fold") > 0).then("fold"))
    folds = table.select(tg.fit_folds("y", *FEATURES, folds="fold", **FEW)).unnest("folds")
    assert folds["fold"].unique().sort().to_list() == [None, 0, 1]
    alone = table.filter(pl.col("fold").is_null() | (pl.col("fold") == 2)).taiga.fit_gbdt("y", *FEATURES, **FEW)
    assert folds.filter(fold=0)["model"][0] == alone.to_bytes()
    p = table.select("fold", p=tg.cross_val_predict("y", *FEATURES, folds="fold", **FEW))
    assert (p["p"].is_null() == p["fold"].is_null()).all()


def test_early_stopping_holds_each_fold_out(levels: pl.DataFrame) -> None:
    """A fold's fit ends as one whose `eval` are its rows."""
    params: dict[str, Any] = {"early_stopping": 3, "metric": "mae", "rounds": 400, "learning_rate": 0.5}
    folds = levels.taiga.cross_validate("y", *FEATURES, folds="fold", models=True, **params)
    for k in range(3):
        alone = levels.taiga.fit_gbdt("y", *FEATURES, eval=pl.col("fold") == k, **params)
        assert folds["model"][k] == alone.to_bytes()
        assert folds["rounds"][k] == alone.rounds < 400
        assert alone.history is not None
        assert folds["mae"][k] == pytest.approx(alone.history["mae"].min(), rel=1e-6)


def test_folds_of_groups_and_nothing_to_fit(levels: pl.DataFrame) -> None:
    """In `over` and `group_by` each group has its own; rows at fault are an error, or null."""
    own = levels.with_columns(p=tg.cross_val_predict("y", *FEATURES, folds=3, rounds=3).over("group"))
    one = levels.filter(group=2).select(tg.cross_val_predict("y", *FEATURES, folds=3, rounds=3)).to_series()
    assert own.filter(group=2)["p"].to_list() == one.to_list()
    grouped = levels.group_by("group", maintain_order=True).agg(
        tg.cross_validate("y", *FEATURES, folds=3, rounds=3, metric="mae")
    )
    assert grouped["cross_validation"].list.len().to_list() == [3] * 5
    one_class = levels.with_columns(flag=False)
    with pytest.raises(pl.exceptions.ComputeError, match="fold 0 of 3"):
        one_class.select(tg.fit_folds("flag", *FEATURES, folds=3))
    none = one_class.select(tg.cross_val_predict("flag", *FEATURES, folds=3, on_error="null")).to_series()
    assert none.null_count() == levels.height


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"folds": 1}, "`folds`: 1 is not between 2"),
        ({"folds": 2.5}, "`folds`: 2.5 is no number of folds"),
        ({"folds": True}, "`folds`: True is no number"),
        ({"folds": "group"}, '`fold_by`: folds="group" needs the column'),
        ({"folds": 4, "fold_by": "w"}, '`fold_by`: it is for folds="group" and "time"'),
        ({"folds": "time", "n_folds": 0}, "`n_folds`: 0 is not between 2"),
        ({"folds": 3, "n_folds": 7}, '`n_folds`: it is for folds="group" and "time", not 3: folds=7 makes so many'),
        ({"n_folds": 7}, '`n_folds`: it is for folds="group" and "time", not 5'),
        ({"folds": "w", "n_folds": 7}, "`n_folds`: it is for .*, not 'w'$"),
        ({"eval": "held"}, "there is no parameter `eval`: each fold is held out"),
        ({"eval_set": "held"}, "there is no parameter `eval_set`: each fold is held out"),
        ({"baseline": "w"}, "there is no parameter `baseline`: .*argument of `fit_gbdt`"),
        ({"init_score": "w"}, "there is no parameter `init_score`: .*argument of `fit_gbdt`"),
        ({"snapshot": "file"}, "there is no parameter `snapshot`: it is an argument of `fit_gbdt`"),
        ({"metric": tg.metric(lambda y, p: abs(y - p), name="fold")}, "`metric`: 'fold' is the name of another field"),
        ({"metric": [None]}, "`metric`: None is neither a metric's name"),
        ({"early_stoping": 3}, "there is no parameter `early_stoping`"),
        ({"metric": "auk"}, "auk"),
    ],
)
def test_what_is_wrong_is_told_at_once(df: pl.DataFrame, more: dict[str, Any], text: str) -> None:
    """Before anything runs, naming the parameter."""
    with pytest.raises((TypeError, ValueError), match=text):
        df.select(tg.cross_validate("y", *FEATURES, **more))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"folds": 4000}, "fold 3000 of 4000 has no rows: there are 3000 rows"),
        ({"folds": "group", "fold_by": "group", "n_folds": 6}, "has no rows: there are 5 groups"),
        ({"folds": "time", "fold_by": "b"}, "column `b`: it is null in"),
        ({"folds": pl.struct("a", "w")}, "its type is struct.*which tells no folds"),
        ({"folds": "flag", "metric": "auc"}, '"auc" is for classes'),
        ({"folds": 3, "loss": "cox"}, "`event`"),
    ],
)
def test_what_can_not_be_divided_is_told(df: pl.DataFrame, more: dict[str, Any], text: str) -> None:
    """By the query, naming the column or the parameter."""
    with pytest.raises(pl.exceptions.PolarsError, match=text):
        df.select(tg.cross_validate("y", *FEATURES, rounds=2, **more))


def test_a_search_is_cross_validations(df: pl.DataFrame) -> None:
    """Each trial's values are those of its cross-validation; the best come first; the same call is the same search."""
    space: dict[str, Any] = {"depth": [2, 5], "learning_rate": (0.05, 0.5, "log"), "bins": [31, 255], "l2": (0, 9)}
    found = df.taiga.search("y", *FEATURES, space=space, trials=7, folds=3, rounds=10, metric="mae", seed=5)
    assert found.columns == ["trial", *space, "rung", "rounds", "mean", "std", "folds"]
    assert sorted(found["trial"]) == list(range(7))
    assert found["mean"].is_sorted()
    assert found["learning_rate"].is_between(0.05, 0.5).all()
    assert found["l2"].dtype == pl.Int64
    for trial in found.sort("trial").head(3).iter_rows(named=True):
        own = {name: trial[name] for name in space}
        alone = df.taiga.cross_validate("y", *FEATURES, folds=3, rounds=10, metric="mae", seed=5, **own)
        assert trial["folds"] == alone["mae"].to_list()
        assert trial["mean"] == pytest.approx(alone["mae"].mean())
        assert trial["std"] == pytest.approx(alone["mae"].std())
    again = df.lazy().taiga.search(
        "y", *FEATURES, space=space, trials=7, folds=3, rounds=10, metric="mae", seed=5, n_threads=1
    )
    assert again.equals(found)
    auc = df.taiga.search("flag", *FEATURES, space={"depth": [1, 6]}, folds=2, rounds=5, metric="auc")
    assert auc["mean"].is_sorted(descending=True)
    assert auc["depth"].to_list() == [6, 1]


def test_halving_gives_the_best_all_rounds(df: pl.DataFrame) -> None:
    """Of nine trials three go on to three times the rounds, and one to all: as by hand."""
    space = {"depth": [1, 3, 6], "learning_rate": [0.02, 0.1, 0.4]}
    found = df.taiga.search("y", *FEATURES, space=space, halving=3, folds=3, rounds=18)
    assert found.group_by("rung").len().sort("rung").rows() == [(0, 9), (1, 3), (2, 1)]
    assert found.group_by("rung").agg(pl.col("rounds").unique()).sort("rung")["rounds"].to_list() == [[2], [6], [18]]
    first = df.taiga.search("y", *FEATURES, space=space, folds=3, rounds=2)
    assert found.filter(rung=0).drop("rung").equals(first.drop("rung"))
    assert set(found.filter(rung=1)["trial"]) == set(first["trial"][:3])
    assert found["trial"][0] == found.filter(rung=1)["trial"][0]


class _Rvs:
    def rvs(self, random_state: int) -> np.float64:
        return np.random.default_rng(random_state).uniform(1, 2)


def test_spaces_of_any_kind(df: pl.DataFrame) -> None:
    """SciPy's distributions, whole numbers and logarithms; one parameter more moves no other's values."""
    small = df.head(300)
    space: dict[str, Any] = {"l2": _Rvs(), "min_data_in_leaf": (1, 64, "log")}
    found = small.taiga.search("y", *FEATURES, space=space, trials=4, folds=2, rounds=2).sort("trial")
    assert found["l2"].is_between(1, 2).all()
    assert found["min_data_in_leaf"].is_between(1, 64).all()
    more = small.taiga.search("y", *FEATURES, space={**space, "depth": [1, 2]}, trials=6, folds=2, rounds=2)
    assert more.sort("trial")["l2"][:4].to_list() == found["l2"].to_list()


def test_searched_rounds_have_a_column_beside_those_of_the_rung(df: pl.DataFrame) -> None:
    """Proves that `rounds` can be searched: the parameter keeps its name, what was given is `rung_rounds`."""
    found = df.taiga.search("y", *FEATURES, space={"rounds": [2, 8]}, folds=2, halving=2)
    assert found.columns == ["trial", "rounds", "rung", "rung_rounds", "mean", "std", "folds"]
    assert dict(found.select("trial", "rounds").unique().iter_rows()) == {0: 2, 1: 8}
    last = found.row(0, named=True)
    assert last["rung_rounds"] == last["rounds"]
    assert (found["rung_rounds"] <= found["rounds"]).all()


def test_values_of_several_types_are_shown_as_json(df: pl.DataFrame) -> None:
    """Proves that no value of a parameter becomes null in the frame, and that values of one type are no text."""
    small = df.head(200)
    space: dict[str, Any] = {"bins": [16, {"b": 4}], "l2": [1, 0.5], "depth": [None, 2]}
    found = small.taiga.search("y", *FEATURES, space=space, folds=2, rounds=2).sort("trial")
    assert found["bins"].to_list() == ["16"] * 4 + ['{"b": 4}'] * 4
    assert found["l2"].to_list() == [1.0, 1.0, 0.5, 0.5] * 2
    assert found["depth"].to_list() == [None, 2] * 4
    other = small.taiga.search("y", *FEATURES, space={"bins": [{"a": 5}, {"b": 4}]}, folds=2, rounds=2).sort("trial")
    assert other["bins"].to_list() == ['{"a": 5}', '{"b": 4}']


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("learning_rate", np.array([0.1, 0.5]), [0.1, 0.5]),
        ("depth", range(1, 3), [1, 2]),
        ("depth", pl.Series([1, 2]), [1, 2]),
        ("depth", (2, 4, 6), [2, 4, 6]),
        ("policy", ("symmetric", "depthwise"), ["symmetric", "depthwise"]),
        ("bundle", (True, False), [True, False]),
        ("categorical", ["d", ["d", "e"]], [["d"], ["d", "e"]]),
    ],
)
def test_lists_of_values_come_in_many_forms(df: pl.DataFrame, name: str, values: Any, wanted: list[Any]) -> None:
    """Proves that arrays, ranges, series and tuples are lists of values, and a feature's name a list of it."""
    table = df.head(200).with_columns(d=pl.int_range(pl.len()) % 3, e=pl.int_range(pl.len()) % 5)
    found = table.taiga.search("y", "a", "d", "e", space={name: values}, folds=2, rounds=2).sort("trial")
    assert found[name].to_list() == wanted
    listed = table.taiga.search("y", "a", "d", "e", space={name: wanted}, folds=2, rounds=2).sort("trial")
    assert found.equals(listed)


def test_no_combination_of_lists_is_drawn_twice(df: pl.DataFrame) -> None:
    """Proves that trials of lists are without replacement, each once where there are no more, and by NumPy integers."""
    small = df.head(100)
    space: dict[str, Any] = {"depth": [1, 2, 3], "l2": [0, 1]}
    for trials, count in [(3, 3), (6, 6), (np.int64(9), 6)]:
        found = small.taiga.search("y", "a", space=space, trials=trials, folds=2, rounds=1)
        assert found.height == found.select("depth", "l2").unique().height == count
    drawn = small.taiga.search("y", "a", space={"depth": (np.int64(1), np.int64(3))}, trials=9, folds=2, rounds=1)
    assert drawn["depth"].is_between(1, 3).all()
    assert drawn.height == 9


@pytest.mark.parametrize(
    ("space", "more", "text"),
    [
        ({}, {}, "`space`"),
        ({"dept": [1]}, {}, "`dept` is no parameter"),
        ({"depth": [1], "n_threads": [1]}, {}, "`n_threads` is no parameter that a search can vary"),
        ({"depth": (1, 5)}, {}, "`trials`: say how many, since `depth`"),
        ({"depth": (5, 1)}, {"trials": 2}, "`depth` is"),
        ({"l2": (0, 5, "log")}, {"trials": 2}, "`l2` begins at 0, which has no logarithm"),
        ({"depth": [99]}, {}, "trial 0: .*`depth`"),
        ({"depth": [1]}, {"trials": 0}, "`trials`: 0 is no number"),
        ({"depth": [1]}, {"halving": 1}, "`halving`: 1 is no number from 2 on"),
        ({"depth": [1]}, {"metric": ["mae", "rmse"]}, "`metric`: a search goes by one"),
        ({"depth": [1]}, {"depth": 3}, "`depth`: it is among the parameters of `space`, and given besides"),
        ({"ctr": ["counter"]}, {}, "`space`: a value of `ctr` is a list of statistics"),
        ({"depth": "deep"}, {}, "`trials`: say how many, since `depth`"),
        ({"depth": ()}, {}, "there are 0 combinations"),
        ({"depth": []}, {"trials": 2}, "`depth` is"),
    ],
)
def test_a_search_that_is_none_is_told(df: pl.DataFrame, space: Any, more: dict[str, Any], text: str) -> None:
    """Before anything runs."""
    with pytest.raises((TypeError, ValueError), match=text):
        df.select(tg.search("y", *FEATURES, space=space, **more))


def test_what_is_no_column_of_folds_is_told() -> None:
    df = pl.DataFrame({"x": range(60)}).with_columns(y=pl.col("x") * 2.0)
    for folds in (pl.Series([0, 1, 2] * 20), np.array([0, 1, 2] * 20), np.array([1, 2])):
        with pytest.raises(TypeError, match="parameter `folds`: values that stand in no column"):
            df.taiga.cross_validate("y", "x", rounds=1, folds=folds)
    assert df.taiga.cross_validate("y", "x", rounds=1, folds=np.int64(3)).height == 3
    with pytest.raises(TypeError, match="parameter `models`: 'no' is not True or False"):
        tg.cross_validate("y", "x", models="no")  # type: ignore[arg-type]
    with pytest.raises(pl.exceptions.SchemaError, match="can't say which rows are of a group"):
        df.taiga.cross_validate("y", "x", rounds=1, folds="group", fold_by=pl.col("y"))


FAULTS: dict[str, tuple[Callable[..., pl.Expr], dict[str, Any], str]] = {
    "one fold": (tg.fit_folds, {"folds": "same"}, "column `same`: it is the same in all rows that are in a fold"),
    "no fold": (tg.cross_val_predict, {"folds": "none"}, "column `none`: it is null in all rows: none is in a fold"),
    "one fold, measured": (tg.cross_validate, {"folds": "same"}, "column `same`: it is the same in all rows"),
    "no fold, searched": (tg.search, {"folds": "none", "space": {"depth": [1, 2]}}, "column `none`: it is null in all"),
    "no such class": (tg.fit_gbdt, {"class_weight": {"p": 2.0}}, "`class_weight`: the target has no class `p`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_rows_of_a_group_lack_is_their_fault(name: str, df: pl.DataFrame) -> None:
    """Proves that groups with one fold or none, or without a class that has a weight, are null under
    `on_error="null"`, and that the others are what they are alone.
    """
    function, how, text = FAULTS[name]
    index = pl.int_range(pl.len())
    data = df.head(400).with_columns(
        g=index % 4,
        label=pl.when((index % 4 == 1) | (index % 8 > 3)).then(pl.lit("q")).otherwise(pl.lit("p")),
        same=pl.when(index % 4 == 1).then(7).otherwise(index // 4 % 3),
        none=pl.when(index % 4 != 1).then(index // 4 % 3),
    )
    data = data.with_columns(label=pl.when((index % 4 == 1) & (index % 8 > 3)).then(pl.lit("r")).otherwise("label"))
    call: dict[str, Any] = {"rounds": 2, **how}

    def fit(**more: Any) -> pl.Expr:
        return function("label", *FEATURES, **call, **more).alias("fit")

    with pytest.raises(pl.exceptions.ComputeError, match=text):
        data.filter(pl.col("g") == 1).select(fit())
    groups = data.group_by("g", maintain_order=True).agg(fit(on_error="null"))
    for g, found in groups.rows():
        alone = data.filter(pl.col("g") == g)
        if g != 1:
            assert found == alone.group_by("g").agg(fit()).rows()[0][1]
        elif isinstance(found, list):
            assert set(map(str, found)) <= {"None", str({"fold": None, "model": None})}
        else:
            assert found is None


def test_a_metric_that_is_named_twice_is_told_once(df: pl.DataFrame) -> None:
    """Proves that one fault is one line, whichever metrics there are."""
    for metric in (["rmse", "rmse"], [OWN, "mae", OWN]):
        with pytest.raises(ValueError, match="named twice") as told:
            tg.cross_validate("y", *FEATURES, metric=metric)
        assert str(told.value).count("named twice") == 1
