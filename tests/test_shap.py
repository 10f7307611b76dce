"""Shapley values: against LightGBM's of the same trees, against the definition, and as expressions."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

FEATURES = list("abcd")
POLICIES: list[dict[str, Any]] = [
    {"policy": "symmetric", "depth": 5},
    {"policy": "depthwise", "depth": 6},
    {"policy": "leafwise", "leaves": 64},
]


def parts(model: object, frame: pl.DataFrame, **options: Any) -> pl.DataFrame:
    """A column for each feature, and the base value."""
    return frame.select(tg.predict(model, output="shap", **options)).unnest("prediction")  # type: ignore[arg-type]


def raw(model: tg.Model, frame: pl.DataFrame) -> np.ndarray:
    output: Any = "auto" if model.learner == "forest" else "raw"
    return frame.select(tg.predict(model, output=output)).to_series().to_numpy()


def sums_to(found: pl.DataFrame, scores: np.ndarray) -> None:
    values = found.to_numpy()
    assert (np.abs(values.sum(axis=1) - scores) <= 1e-12 * np.abs(values).sum(axis=1)).all()


def as_lightgbm(model: tg.Model) -> lightgbm.Booster:
    """The same trees as LightGBM's, with the same numbers of rows in their leaves."""
    trees = []
    for rows in model.trees().partition_by("tree", maintain_order=True):
        nodes = rows.to_dicts()
        inner = [n for n in nodes if n["leaf"] is None]
        place = {n["node"]: i for i, n in enumerate(inner)}
        leaves = sorted((n for n in nodes if n["leaf"] is not None), key=lambda n: n["leaf"])
        side = {n["node"]: place[n["node"]] if n["leaf"] is None else ~n["leaf"] for n in nodes}
        lists: dict[str, list[Any]] = {
            "split_feature": [FEATURES.index(n["feature"]) for n in inner],
            "split_gain": [1.0 for _ in inner],
            "threshold": [min(n["border"], sys.float_info.max) for n in inner],
            "decision_type": [8 + 2 * n["missing_left"] for n in inner],
            "left_child": [side[n["left"]] for n in inner],
            "right_child": [side[n["right"]] for n in inner],
            "leaf_value": [repr(n["value"]) for n in leaves],
            "leaf_weight": [n["weight"] for n in leaves],
            "leaf_count": [n["count"] for n in leaves],
            "internal_value": [0 for _ in inner],
            "internal_weight": [0 for _ in inner],
            "internal_count": [n["count"] for n in inner],
        }
        lines = [f"Tree={len(trees)}", f"num_leaves={len(leaves)}", "num_cat=0"]
        lines += [f"{name}={' '.join(map(str, values))}" for name, values in lists.items()]
        trees.append("\n".join([*lines, "is_linear=0", "shrinkage=1", "", ""]))
    head = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    head += [f"max_feature_idx={len(FEATURES) - 1}", "objective=regression", f"feature_names={' '.join(FEATURES)}"]
    head += [f"feature_infos={' '.join('[-99:99]' for _ in FEATURES)}"]
    head += [f"tree_sizes={' '.join(str(len(tree) + 1) for tree in trees)}", "", ""]
    return lightgbm.Booster(model_str="\n".join([*head, *trees]) + "\nend of trees\n")


@pytest.mark.parametrize("params", POLICIES[1:], ids=lambda p: p["policy"])
def test_lightgbm_gives_the_same_values_for_the_same_trees(df: pl.DataFrame, params: dict[str, Any]) -> None:
    """Proves it with missing values, by default sides, to 1e-9 of the sum of absolute values.

    Symmetric trees have leaves without rows, for which LightGBM divides by zero.
    """
    model = df.taiga.fit_gbdt("y", *FEATURES, rounds=20, learning_rate=0.3, **params)
    table = df.select(FEATURES).fill_null(float("nan")).to_numpy()
    peer = as_lightgbm(model)
    found = parts(model, df)
    sums_to(found, raw(model, df))
    start = raw(model, df)[0] - peer.predict(table[:1])[0]
    expected = peer.predict(table, pred_contrib=True) + np.array([0, 0, 0, 0, start])
    scale = np.abs(expected).sum(axis=1, keepdims=True)
    assert (np.abs(found.to_numpy() - expected) <= 1e-9 * scale).all()


def shapley(value: Callable[[frozenset[str]], float], players: list[str]) -> tuple[dict[str, float], dict[Any, float]]:
    """By the definition: values of players, and halves of the interaction index of pairs."""
    single, double = dict.fromkeys(players, 0.0), dict.fromkeys(itertools.permutations(players, 2), 0.0)
    n, known = len(players), {}
    for size in range(n + 1):
        for group in map(frozenset, itertools.combinations(players, size)):
            known[group] = value(group)
    for group, own in known.items():
        rest = [p for p in players if p not in group]
        for i in rest:
            weight = math.factorial(len(group)) * math.factorial(n - len(group) - 1) / math.factorial(n)
            single[i] += weight * (known[group | {i}] - own)
            for j in rest:
                if i != j:
                    weight = math.factorial(len(group)) * math.factorial(n - len(group) - 2) / math.factorial(n - 1) / 2
                    double[i, j] += weight * (known[group | {i, j}] - known[group | {i}] - known[group | {j}] + own)
    return single, double


@pytest.mark.parametrize("params", [{"policy": "leafwise", "leaves": 12}, {"policy": "symmetric", "depth": 4}])
def test_values_follow_the_training_rows_as_defined(df: pl.DataFrame, params: dict[str, Any]) -> None:
    model = df.taiga.fit_gbdt("y", *FEATURES, rounds=5, learning_rate=0.5, **params)
    start = float(raw(model, df.head(1))[0])
    trees = [{n["node"]: n for n in t.to_dicts()} for t in model.trees().partition_by("tree", maintain_order=True)]

    def walk(tree: dict[int, Any], at: int, row: dict[str, Any], group: frozenset[str]) -> float:
        node = tree[at]
        if node["leaf"] is not None:
            return float(node["value"])
        left, right = node["left"], node["right"]
        if node["feature"] in group:
            x = row[node["feature"]]
            goes_left = node["missing_left"] if x is None or x != x else x <= node["border"]
            return walk(tree, left if goes_left else right, row, group)
        share = tree[left]["count"] / node["count"] if node["count"] else 0.5
        return share * walk(tree, left, row, group) + (1 - share) * walk(tree, right, row, group)

    few = df.head(40)
    found = parts(model, few)
    both = few.select(tg.predict(model, output="shap_interactions")).unnest("prediction")
    full = sum(walk(tree, 0, few.row(0, named=True), frozenset(FEATURES)) for tree in trees)
    start -= full
    for at, row in enumerate(few.iter_rows(named=True)):
        single, double = shapley(lambda g, row=row: sum(walk(t, 0, row, g) for t in trees), FEATURES)  # type: ignore[misc]
        assert found.row(at)[:-1] == pytest.approx(list(single.values()), abs=1e-11)
        base = start + sum(walk(tree, 0, row, frozenset()) for tree in trees)
        assert found["base_value"][at] == pytest.approx(base, abs=1e-11)
        for i in FEATURES:
            line = both[i][at]
            assert sum(line.values()) == pytest.approx(single[i], abs=1e-11)
            for j in FEATURES:
                if i != j:
                    assert line[j] == pytest.approx(double[i, j], abs=1e-11)


def with_categories(df: pl.DataFrame) -> pl.DataFrame:
    row = pl.int_range(pl.len())
    return df.with_columns(
        city=pl.concat_str(pl.lit("c"), (row * 7919 % 23).cast(pl.String)), zip=(row * 31 % 7).cast(pl.String)
    )


FITS: dict[str, Callable[[pl.DataFrame], tg.Model]] = {
    "ctr": lambda f: f.taiga.fit_gbdt("flag", *FEATURES, "city", rounds=10),
    "one_hot": lambda f: f.taiga.fit_gbdt("y", *FEATURES, "zip", rounds=10, policy="depthwise", cat_method="one_hot"),
    "partition": lambda f: f.taiga.fit_gbdt(
        "y", "a", "city", "zip", rounds=10, policy="leafwise", cat_method="partition"
    ),
    "forest": lambda f: f.taiga.fit_forest("flag", *FEATURES, "city", trees=10, depth=8),
    "forest_regression": lambda f: f.taiga.fit_forest("y", *FEATURES, trees=10),
    "linear": lambda f: f.with_columns(pl.col("b", "c").fill_nan(0).fill_null(0)).taiga.fit_sparse_lr(
        "flag", dense=FEATURES
    ),
}


@pytest.mark.parametrize("kind", FITS)
def test_values_against_a_background_as_defined(df: pl.DataFrame, kind: str) -> None:
    """Proves it for columns with categories too: those of a set are the row's, the others each background row's."""
    frame = with_categories(df).with_columns(pl.col("b", "c").fill_nan(0).fill_null(0))
    model = FITS[kind](frame)
    names = list(model.features)
    background = frame.select(names).slice(100, 12)
    few = frame.select(names).head(4)
    found = parts(model, few, background=background)
    both = few.select(tg.predict(model, output="shap_interactions", background=background)).unnest("prediction")
    sums_to(found, raw(model, few))
    for at in range(few.height):
        row = few.slice(at, 1)

        def value(group: frozenset[str], row: pl.DataFrame = row) -> float:
            mixed = background.with_columns(pl.lit(row[name]).first().alias(name) for name in group)
            return float(raw(model, mixed).mean())

        single, double = shapley(value, names)
        assert list(found.row(at)[:-1]) == pytest.approx(list(single.values()), abs=1e-11)
        assert {(i, j): both[i][at][j] for i, j in double} == pytest.approx(double, abs=1e-11)
        assert found["base_value"][at] == pytest.approx(value(frozenset()), abs=1e-11)


@pytest.mark.parametrize("against", [False, True])
def test_a_combination_is_a_player_of_its_own(df: pl.DataFrame, against: bool) -> None:
    """Proves it as defined, by the leaves of symmetric trees, whose bits are a row's answers to the levels.

    What a combination's statistics are worth goes to its columns in equal parts.
    """
    frame = with_categories(df)
    model = frame.taiga.fit_gbdt("flag", "a", "city", "zip", rounds=6, depth=4, max_combination=2)
    data, names, few = json.loads(model.to_json()), list(model.features), frame.head(3)
    background = frame.slice(100, 12) if against else None

    def player(feature: int) -> str:
        derived = data["derived"][feature - len(names)] if feature >= len(names) else None
        columns = [feature] if derived is None else data["tables"][derived["table"]]["features"]
        return "+".join(names[c] for c in columns)

    asked = [[player(split["feature"]) for split in tree["splits"]] for tree in data["trees"]]
    players = sorted(set(itertools.chain(*asked)))
    assert any("+" in p for p in players)
    values = [[leaf["value"] * data["scale"] for leaf in tree["leaves"]] for tree in data["trees"]]
    counts = [[leaf["count"] for leaf in tree["leaves"]] for tree in data["trees"]]

    def leaves_of(rows: pl.DataFrame) -> list[list[int]]:
        return rows.select(tg.predict(model, output="leaf")).to_series().to_list()

    def score(own: list[int], group: frozenset[str], other: list[int]) -> float:
        total: float = data["start"][0]
        for tree, levels in enumerate(asked):
            bits = [1 << (len(levels) - 1 - i) for i in range(len(levels))]
            mask = sum(bit for bit, p in zip(bits, levels, strict=True) if p in group)
            total += values[tree][own[tree] & mask | other[tree] & ~mask]
        return total

    def by_rows(own: list[int], group: frozenset[str]) -> float:
        def walk(tree: int, level: int, at: int) -> float:
            left = len(asked[tree]) - level
            if left == 0:
                return float(values[tree][at])
            if asked[tree][level] in group:
                return walk(tree, level + 1, 2 * at + (own[tree] >> (left - 1) & 1))
            below = [sum(counts[tree][side << (left - 1) : (side + 1) << (left - 1)]) for side in (2 * at, 2 * at + 1)]
            share = below[0] / sum(below) if any(below) else 0.5
            return share * walk(tree, level + 1, 2 * at) + (1 - share) * walk(tree, level + 1, 2 * at + 1)

        return float(data["start"][0] + sum(walk(tree, 0, 0) for tree in range(len(asked))))

    found = parts(model, few, **({"background": background} if against else {}))
    others = [] if background is None else leaves_of(background)
    for at, own in enumerate(leaves_of(few)):

        def value(group: frozenset[str], own: list[int] = own) -> float:
            return sum(score(own, group, o) for o in others) / len(others) if others else by_rows(own, group)

        single, _ = shapley(value, players)
        dealt = {n: sum(v / (p.count("+") + 1) for p, v in single.items() if n in p.split("+")) for n in names}
        assert found.row(at, named=True) == pytest.approx(dealt | {"base_value": value(frozenset())}, abs=1e-11)


def test_every_learner_sums_to_its_score(df: pl.DataFrame) -> None:
    frame = with_categories(df).with_columns(
        pl.col("b", "c").fill_nan(0).fill_null(0),
        words=pl.concat_list(pl.col("city"), pl.col("zip")),
        unseen=pl.lit("new"),
    )
    combined = frame.taiga.fit_gbdt("flag", "a", "city", "zip", rounds=20, max_combination=2)
    linear = frame.taiga.fit_sparse_lr("flag", "words", dense=["a", "b"])
    for model in [*(fit(frame) for fit in FITS.values()), combined, linear]:
        sums_to(parts(model, frame), raw(model, frame))
    sums_to(parts(combined, frame, background=frame.head(20)), raw(combined, frame))
    means = parts(linear, frame).mean().row(0)
    assert means[:-1] == pytest.approx([0, 0, 0], abs=1e-12)
    new = frame.with_columns(city="unseen")
    sums_to(parts(combined, new), raw(combined, new))


def test_several_classes(df: pl.DataFrame) -> None:
    frame = with_categories(df).with_columns(pl.col("b", "c").fill_nan(0).fill_null(0))
    for fit in (
        lambda: frame.taiga.fit_gbdt("kind", *FEATURES, rounds=5),
        lambda: frame.taiga.fit_forest("kind", *FEATURES, trees=5),
        lambda: frame.taiga.fit_sparse_lr("kind", dense=FEATURES),
    ):
        model = fit()
        output: Any = "auto" if model.learner == "forest" else "raw"
        scores = frame.select(tg.predict(model, output=output)).unnest("prediction")
        for found in (
            frame.select(tg.predict(model, output="shap")),
            frame.select(tg.predict(model, output="shap", background=frame.head(15))),
        ):
            of_classes = found.unnest("prediction")
            assert of_classes.columns == scores.columns == ["low", "mid", "top"]
            for label in scores.columns:
                sums_to(of_classes.select(label).unnest(label), scores[label].to_numpy())


def same_bytes(a: pl.DataFrame, b: pl.DataFrame) -> None:
    assert a.columns == b.columns
    for name in a.columns:
        assert (a[name].to_numpy().view(np.uint64) == b[name].to_numpy().view(np.uint64)).all()


@pytest.mark.parametrize("params", POLICIES, ids=lambda p: p["policy"])
def test_a_row_has_the_same_bytes_in_any_company(df: pl.DataFrame, params: dict[str, Any]) -> None:
    model = df.taiga.fit_gbdt("flag", *FEATURES, rounds=15, **params)
    for options in ({}, {"background": df.slice(7, 20)}):
        whole = parts(model, df, **options)
        same_bytes(parts(model, df.slice(17, 1), **options), whole.slice(17, 1))
        assert parts(model, df.head(0), **options).schema == whole.schema
        chunks = pl.concat([df.head(101), df.slice(101, 1), df.slice(102)], rechunk=False)
        same_bytes(parts(model, chunks, **options), whole)
        expr = tg.predict(model, output="shap", **options).alias("prediction")
        if not pl.__version__.startswith("1."):
            same_bytes(df.lazy().select(expr).collect(engine="streaming").unnest("prediction"), whole)
        models = df.with_columns(model=pl.lit(model.to_bytes()), part=pl.int_range(pl.len()) % 3)
        grouped = models.select(expr.over("part")) if not options else models.select(expr)
        same_bytes(grouped.unnest("prediction"), whole)
    together = df.select(tg.predict(model, output=["raw", "shap", "shap_interactions"])).unnest("prediction")
    same_bytes(together.select("shap").unnest("shap"), parts(model, df))
    assert together["raw"].equals(df.select(tg.predict(model, output="raw")).to_series().alias("raw"))


THREADS = """
import polars as pl, polars_taiga as tg
i = pl.int_range(20_000, eager=True)
df = pl.DataFrame({"a": i * 7919 % 1009, "b": i * 31 % 521, "c": i % 7}).with_columns(y=pl.col("a") * pl.col("b") % 101)
model = df.taiga.fit_gbdt("y", "a", "b", "c", rounds=20, policy="leafwise", progress=False)
shap = df.select(tg.predict(model, output="shap")).unnest("prediction")
print(shap.hash_rows(1).sum(), shap.hash_rows(2).sum())
"""


def test_threads_leave_no_trace() -> None:
    def run(threads: int) -> str:
        script = f"import os; os.environ['POLARS_MAX_THREADS'] = '{threads}'\n{THREADS}"
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert run(1) == run(2)


def test_nothing_to_explain(df: pl.DataFrame) -> None:
    constant = df.with_columns(y=pl.lit(2.5)).taiga.fit_gbdt("y", "a", "b", rounds=3, on_error="constant")
    found = parts(constant, df.head(3))
    assert found.to_dict(as_series=False) == {"a": [0.0] * 3, "b": [0.0] * 3, "base_value": [2.5] * 3}
    model = df.with_columns(same=pl.lit(1.0)).taiga.fit_gbdt("y", "same", "a", rounds=3)
    inf = float("inf")
    odd = pl.DataFrame({"a": [None, float("nan"), inf, -inf, 1e300], "same": [None, 1.0, 2.0, 3.0, 1e9]})
    assert parts(model, odd)["same"].to_list() == [0.0] * 5
    sums_to(parts(model, odd), raw(model, odd))


def test_bad_input(df: pl.DataFrame, regression: tg.Model) -> None:
    def run(**options: Any) -> None:
        df.select(tg.predict(regression, **options))

    with pytest.raises(ValueError, match="background has no rows"):
        run(output="shap", background=df.head(0))
    with pytest.raises(TypeError, match="background is a DataFrame or a LazyFrame, not Series"):
        run(output="shap", background=df["a"])
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="a"):
        run(output="shap", background=df.drop("a"))
    with pytest.raises(pl.exceptions.ComputeError, match="background"):
        run(output="shap", background=df.with_columns(pl.col("a").cast(pl.String)))
    with pytest.raises(ValueError, match=r"background= is for output='shap' and 'shap_interactions', not 'auto'"):
        run(background=df)
    with pytest.raises(ValueError, match=r"is not one of .*'shap'"):
        run(output="shapley")
    named = df.rename({"a": "base_value"}).taiga.fit_gbdt("y", "base_value", rounds=2)
    with pytest.raises(ValueError, match="gives the base value the name 'base_value', which a feature has"):
        tg.predict(named, output="shap")
    with pytest.raises(ValueError, match="needs dtype=, a struct of"):
        tg.predict(pl.col("model"), *FEATURES, output="shap")
    with pytest.raises(ValueError, match="needs dtype=, a struct of"):
        tg.predict(pl.col("model"), *FEATURES, output="shap", dtype=pl.Struct({"a": pl.Float64}))


def test_a_model_that_is_an_expression(df: pl.DataFrame, regression: tg.Model) -> None:
    own = df.with_columns(model=pl.lit(regression.to_bytes()))
    line = dict.fromkeys(FEATURES, pl.Float64)
    shap = pl.Struct({**line, "base_value": pl.Float64})
    found = own.select(tg.predict("model", *FEATURES, output="shap", dtype=shap)).unnest("prediction")
    same_bytes(found, parts(regression, df))
    pairs = pl.Struct(dict.fromkeys(FEATURES, pl.Struct(line)))
    both = own.select(tg.predict("model", *FEATURES, output="shap_interactions", dtype=pairs))
    assert both.equals(df.select(tg.predict(regression, output="shap_interactions")))
    wrong = pl.Struct({"a": pl.Float64, "base_value": pl.Float64})
    with pytest.raises(pl.exceptions.ComputeError, match="the query was planned for"):
        own.select(tg.predict("model", *FEATURES, output="shap", dtype=wrong))


ENUM = pytest.param(
    pl.Enum(list("01234")),
    marks=pytest.mark.skipif(pl.__version__.startswith("1."), reason="Polars 1 panics at an Enum in a list of structs"),
)


@pytest.mark.parametrize(
    "dtype", [pl.Decimal(10, 2), pl.Date, pl.Datetime("ms"), pl.Duration, pl.Time, pl.Categorical, ENUM]
)
def test_a_background_keeps_its_types(dtype: Any) -> None:
    """Proves that a background's values are read as those of the rows: with scales, units and categories."""
    codes = pl.int_range(200) % 5
    text = dtype in (pl.Categorical,) or isinstance(dtype, pl.Enum)
    x = codes.cast(pl.String) if text else codes.cast(pl.Int64) * 1_000_000_000 if dtype == pl.Time else codes
    frame = pl.DataFrame({"z": range(200)}).with_columns(x=x.cast(dtype), y=codes * 2.0 + pl.col("z") % 7)
    model = frame.taiga.fit_gbdt("y", "x", "z", rounds=5)
    background = frame.sample(50, seed=1)
    found = frame.select(tg.predict(model, output="shap", background=background)).unnest("prediction")
    assert found["base_value"][0] == pytest.approx(model.predict(background, output="raw").mean(), rel=1e-5)
    assert dict(model.importance("shap", frame, background=background).rows())
