"""The fits whose bytes are kept, and the tables that they are made on.

The tables come from integer arithmetic alone, so that they are the same on every machine and under
every version of NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import polars as pl
import polars_taiga as tg

Frame = pl.DataFrame
Cases = dict[str, Callable[[], bytes]]

DEVICE = os.environ.get("TAIGA_GOLDEN_DEVICE", "cpu")
"""Where they are made; the bytes are the same."""

POLICIES = ["symmetric", "depthwise", "leafwise"]
NUMBERS = ["a", "b", "c", "d", "i", "flag"]
TEXTS = ["color", "city"]


def _bits(rows: int, column: int) -> np.ndarray:
    """Pseudo-random 64-bit numbers (splitmix64), one for each row."""
    with np.errstate(over="ignore"):
        x = (np.arange(rows, dtype=np.uint64) + np.uint64(column * 1_000_003 + 1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _uniform(rows: int, column: int) -> np.ndarray:
    """Multiples of 2^-20 in [0, 1)."""
    return (_bits(rows, column) >> np.uint64(44)).astype(np.float64) / 2**20


def _below(rows: int, column: int, most: int) -> np.ndarray:
    return (_bits(rows, column) % np.uint64(most)).astype(np.int64)


@cache
def table(rows: int) -> Frame:
    """Numbers with and without gaps, text, integer categories, targets of every kind, and roles."""
    a, b, c = _uniform(rows, 1), _uniform(rows, 2), _uniform(rows, 3)
    d = np.where(_below(rows, 4, 10) == 0, np.nan, _uniform(rows, 5))
    i = _below(rows, 6, 40)
    flag = _below(rows, 7, 5) == 0
    color = np.array(["red", "green", "blue", "grey", "pink", "teal"])[_below(rows, 8, 6)]
    city = np.char.add("city", _below(rows, 9, 60).astype(str))
    noise = _uniform(rows, 10)
    pull = (color == "red") * 0.5 + (_below(rows, 9, 60) % 7) * 0.125
    number = 1 + 2 * a - b * c + np.where(np.isnan(d), 0.25, d) + i / 64 + flag * 0.5 + pull + noise * 0.5
    columns = {
        "a": a,
        "b": b.astype(np.float32),
        "c": c,
        "d": pl.Series(d).fill_nan(None),
        "i": i,
        "flag": flag,
        "color": color,
        "city": pl.Series(city).set(pl.Series(_below(rows, 11, 20) == 0), None),
        "code": _below(rows, 12, 30),
        "number": number,
        "positive": number + 0.25,
        "count": np.floor(number * 2).astype(np.int64),
        "share": np.minimum(number / 8, 1.0),
        "binary": number > 3.25,
        "text": np.array(["low", "mid", "high"])[np.digitize(number, [2.75, 3.5])],
        "label": np.digitize(number, [2.5, 3.0, 3.5, 4.0]).astype(np.int64),
        "w": (_below(rows, 13, 8) + 1) / 4,
        "held": _below(rows, 14, 4) == 0,
        "base": a - 0.5,
        "day": _below(rows, 15, 50),
    }
    return pl.DataFrame(columns)


@cache
def sparse(rows: int) -> Frame:
    """Lists of features, with values, as words and as structs, and targets."""
    width = _below(rows, 21, 6) + 1
    offsets = np.concatenate([[0], np.cumsum(width)])
    n = int(offsets[-1])
    items = _below(n, 22, 300)
    values = _uniform(n, 23) * 2 - 1
    owner = np.repeat(np.arange(rows), width)
    score = np.bincount(owner, weights=np.where(items % 3 == 0, 1.0, -0.5), minlength=rows) + _uniform(rows, 24) * 2
    lists = (
        pl.DataFrame({"row": owner, "ids": items, "values": values})
        .group_by("row", maintain_order=True)
        .agg("ids", "values")
    )
    return lists.with_columns(
        words=pl.col("ids").list.eval(pl.lit("w") + pl.element().cast(pl.String)),
        x=_uniform(rows, 25) - 0.5,
        binary=score > 0.5,
        text=np.array(["one", "two", "three"])[np.digitize(score, [0.0, 1.0])],
        w=(_below(rows, 26, 4) + 1) / 2,
        held=_below(rows, 27, 5) == 0,
    )


def _fit(fit: Callable[..., pl.Expr], frame: Frame, *args: object, **params: object) -> bytes:
    return frame.select(fit(*args, **{"seed": 3, "device": DEVICE, **params})).item()


def _gbdt(rows: int, target: str, features: list[str], **params: object) -> Callable[[], bytes]:
    return lambda: _fit(tg.fit_gbdt, table(rows), target, *features, **{"rounds": 6, "depth": 4, **params})


SEVERAL: dict[str, dict[str, object]] = {
    "rmse": {"eval": "held"},
    "each": {"multi_strategy": "tree_each", "weight": "w"},
    "mae": {"loss": "mae", "weight": "w"},
    "poisson": {"loss": "poisson", "min_data_in_leaf": 5},
    "labels": {"loss": "multilabel", "eval": "held"},
    "goss": {"loss": "multilabel", "row_sample": "goss"},
    "mvs": {"row_sample": "mvs", "l1": 0.5},
}
"""Fits of several targets."""

TARGETS = pl.struct("number", "count", "share")
LABELS = pl.struct("binary", high=pl.col("number") > 3.5)


def _several(rows: int, target: pl.Expr, features: list[str], **params: object) -> Callable[[], bytes]:
    return lambda: _fit(tg.fit_gbdt, table(rows), target, *features, **{"rounds": 4, "depth": 4, **params})


def gbdt() -> Cases:
    """Every loss, policy, sampler, draw, constraint, border method and metric on numbers."""
    targets = {
        "rmse": "number",
        "mae": "number",
        "quantile": "number",
        "huber": "number",
        "poisson": "count",
        "gamma": "positive",
        "tweedie": "count",
        "cross_entropy": "share",
        "logloss": "binary",
        "multiclass": "text",
        "expectile": "number",
        "mape": "number",
        "log_cosh": "number",
        "focal": "binary",
        "ova": "text",
        "gaussian": "number",
    }
    cases: Cases = {}
    for policy in POLICIES:
        more = {"policy": policy}
        for loss, target in targets.items():
            cases[f"gbdt-{policy}-{loss}"] = _gbdt(3000, target, NUMBERS, loss=loss, **more)
            cases[f"gbdt-{policy}-{loss}-weight"] = _gbdt(800, target, NUMBERS, loss=loss, weight="w", **more)
        for loss in ("cox", "aft"):
            cases[f"gbdt-{policy}-{loss}"] = _gbdt(3000, "positive", NUMBERS, loss=loss, event="binary", **more)
        strata = {"group": "code", "weight": "w", "eval": "held"}
        cases[f"gbdt-{policy}-cox-strata"] = _gbdt(
            3000, "positive", NUMBERS, loss="cox", event="binary", **strata, **more
        )
        cases[f"gbdt-{policy}-quantiles"] = _gbdt(
            1500, "number", NUMBERS, loss="quantile", alpha=[0.1, 0.5, 0.9], weight="w", eval="held", **more
        )
        for name, own in SEVERAL.items():
            target = LABELS if own.get("loss") == "multilabel" else TARGETS
            cases[f"gbdt-{policy}-targets-{name}"] = _several(1500, target, NUMBERS, **own, **more)
        cases[f"gbdt-{policy}-targets-ctr"] = _several(900, TARGETS, [*NUMBERS, *TEXTS], **more)
        if policy != "symmetric":
            cases[f"gbdt-{policy}-targets-partition"] = _several(
                900, TARGETS, [*NUMBERS, *TEXTS], cat_method="partition", **more
            )
        cases[f"gbdt-{policy}-multiclass-one-tree"] = _gbdt(900, "text", NUMBERS, multi_strategy="one_tree", **more)
        for sample in ["bernoulli", "goss", "mvs"]:
            for loss, target in [("rmse", "number"), ("logloss", "binary"), ("multiclass", "label"), ("mae", "number")]:
                cases[f"gbdt-{policy}-{loss}-{sample}"] = _gbdt(
                    2000, target, NUMBERS, loss=loss, row_sample=sample, **more
                )
        for rows in [120, 500, 70_000]:
            cases[f"gbdt-{policy}-rows-{rows}"] = _gbdt(rows, "number", NUMBERS, rounds=3, **more)
            cases[f"gbdt-{policy}-classes-{rows}"] = _gbdt(rows, "text", NUMBERS, rounds=2, **more)
        leaf: dict[str, object] = {"leaf": "linear", **more}
        cases[f"gbdt-{policy}-linear-leaves"] = _gbdt(
            1500, "number", [*NUMBERS, *TEXTS], eval="held", weight="w", **leaf
        )
        cases[f"gbdt-{policy}-linear-leaves-classes"] = _gbdt(2000, "text", NUMBERS, linear_l2=0.5, **leaf)
        cases[f"gbdt-{policy}-linear-leaves-many"] = _gbdt(70_000, "binary", NUMBERS, row_sample="goss", **leaf)
        extras: dict[str, dict[str, object]] = {
            "monotone": {"monotone": {"a": 1, "b": -1}},
            "interaction": {"interaction": [["a", "b"], ["c", "d", "i"]]},
            "fractions": {"feature_fraction": 0.7, "feature_fraction_level": 0.7},
            "regularised": {"l1": 0.5, "l2": 3.0, "min_gain": 0.25},
            "few-bins": {"bins": 8},
            "all-bins": {"bins": 256},
            "uniform": {"border_method": "uniform"},
            "greedy": {"border_method": "greedy_logsum"},
            "quantile-borders": {"border_method": "quantile", "border_sample": 500},
            "baseline": {"baseline": "base"},
            "bayesian": {"row_sample": "bayesian", "bagging_temperature": 0.7},
            "max-delta-step": {"max_delta_step": 0.3, "monotone": {"b": -1}},
            "path-smooth": {"path_smooth": 20.0, "max_delta_step": 2.0},
            "extra-trees": {"extra_trees": True, "min_data_in_leaf": 3},
            "stopping": {"eval": "held", "early_stopping": 2, "rounds": 20, "learning_rate": 0.5},
            "min-delta": {
                "eval": "held",
                "early_stopping": 2,
                "early_stopping_min_delta": 0.02,
                "rounds": 20,
                "learning_rate": 0.5,
            },
        }
        if policy != "symmetric":
            extras["leaves-of-many"] = {"min_child_weight": 20, "min_data_in_leaf": 30}
            extras["node-fraction"] = {"feature_fraction_node": 0.6}
        for name, extra in extras.items():
            cases[f"gbdt-{policy}-{name}"] = _gbdt(1500, "number", NUMBERS, **more, **extra)
        cases[f"gbdt-{policy}-metrics-several"] = _gbdt(
            1500,
            "binary",
            NUMBERS,
            eval=pl.when("held").then(pl.when(pl.col("i") < 20).then(pl.lit("low")).otherwise(pl.lit("high"))),
            metric=["auc", "ece@10", "f1", tg.metric(lambda y, p: tg.mean(abs(y - p)).sqrt(), name="own")],
            eval_train=True,
            weight="w",
            **more,
        )
        for metric in ["auc", "accuracy", "logloss", "mae"]:
            cases[f"gbdt-{policy}-metric-{metric}"] = _gbdt(
                1500, "binary", NUMBERS, eval="held", metric=metric, weight="w", **more
            )
        cases[f"gbdt-{policy}-class-weight"] = _gbdt(
            1500, "text", NUMBERS, class_weight={"low": 2.0, "mid": 0.5}, **more
        )
        cases[f"gbdt-{policy}-balanced"] = _gbdt(1500, "binary", NUMBERS, class_weight="balanced", **more)
    return cases


def ranking() -> Cases:
    """Every loss by group, with positions and without."""
    cases: Cases = {}
    features = [name for name in NUMBERS if name != "i"]
    for policy in POLICIES:
        for loss in ["lambdarank", "pairwise", "xendcg", "yetirank"]:
            for position in [None, "i"]:
                name = f"rank-{policy}-{loss}-{'position' if position else 'plain'}"
                roles = {"group": "day", "position": position, "weight": "w"}
                cases[name] = _gbdt(2000, "label", features, loss=loss, policy=policy, **roles)
    return cases


def categories() -> Cases:
    """Every way to split categories, under every policy."""
    cases: Cases = {}
    features = [*NUMBERS[:4], *TEXTS, "code"]
    base = {"categorical": ["code"], "rounds": 5}
    for policy in POLICIES:
        for loss, target in [("rmse", "number"), ("logloss", "binary"), ("multiclass", "text")]:
            for method in ["ctr", "one_hot", "partition"]:
                if method == "partition" and policy == "symmetric":
                    continue
                cases[f"cat-{policy}-{method}-{loss}"] = _gbdt(
                    1500, target, features, loss=loss, policy=policy, cat_method=method, **base
                )
        extras: dict[str, dict[str, object]] = {
            "weight": {"weight": "w"},
            "stopping": {"eval": "held", "early_stopping": 3},
            "one-permutation": {"permutations": 1},
            "many-combinations": {"max_combination": 3},
            "alone": {"max_combination": 1},
            "one-hot-many": {"one_hot_max_size": 10},
        }
        for name, extra in extras.items():
            cases[f"cat-{policy}-{name}"] = _gbdt(1500, "binary", features, policy=policy, **base, **extra)
        for kind in ["borders", "buckets", "binarized_target_mean_value", "counter"]:
            cases[f"cat-{policy}-{kind}"] = _gbdt(
                1200, "text", features, policy=policy, ctr=[kind], target_borders=2, **base
            )
        for kind in ["borders", "buckets", "binarized_target_mean_value", "float_target_mean_value"]:
            cases[f"cat-{policy}-number-{kind}"] = _gbdt(
                1200, "number", features, policy=policy, ctr=[kind, "counter"], target_borders=3, **base
            )
    return cases


def forests() -> Cases:
    """Every criterion and splitter, with weights, categories and limits."""
    cases: Cases = {}
    targets = {"gini": "text", "entropy": "binary", "squared_error": "number", "poisson": "count"}
    for splitter in ["histogram", "exact", "random"]:
        for criterion, target in targets.items():
            params: dict[str, object] = {"trees": 5, "splitter": splitter, "criterion": criterion}
            extras: dict[str, dict[str, object]] = {
                "plain": {},
                "weight": {"weight": "w"},
                "limits": {"depth": 5, "min_data_in_leaf": 4, "min_gain": 1e-4, "bootstrap": 0.5},
                "leaves": {"leaves": 12, "max_features": 0.5, "bootstrap": False},
            }
            for name, extra in extras.items():
                features = [*NUMBERS, *TEXTS] if splitter == "histogram" and "w" not in extra else NUMBERS
                cases[f"forest-{splitter}-{criterion}-{name}"] = partial(
                    _fit, tg.fit_forest, table(900), target, *features, **params, **extra
                )
    cases["forest-permutation"] = lambda: _fit(
        tg.fit_forest, table(900), "binary", *NUMBERS, trees=4, permutation_importance=True, class_weight="balanced"
    )
    return cases


def linear() -> Cases:
    """Every optimizer, penalty and form of rows."""
    cases: Cases = {}
    forms: dict[str, dict[str, object]] = {
        "ids": {"indices": "ids"},
        "values": {"indices": "ids", "values": "values", "weight": "w"},
        "words": {"indices": "words", "hash_bits": 10},
        "dense": {"indices": "ids", "dense": ["x"]},
    }
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"]:
        for form, args in forms.items():
            for target in ["binary", "text"]:
                for l1 in [0.0, 1e-3]:
                    params = {"optimizer": optimizer, "epochs": 4, "l1": l1, **args}
                    cases[f"linear-{optimizer}-{form}-{target}-{'l1' if l1 else 'l2'}"] = partial(
                        _fit, tg.fit_sparse_lr, sparse(1200), target, **params
                    )
    cases["linear-stopping"] = lambda: _fit(
        tg.fit_sparse_lr, sparse(1200), "binary", "ids", optimizer="ftrl", eval="held", metric="auc", early_stopping=2
    )
    return cases


def _values(expr: Callable[[], pl.Expr]) -> Callable[[], bytes]:
    """What an expression over the table gives, as text of full precision."""
    return lambda: repr(table(1500).select(expr()).rows()).encode()


def encodings() -> Cases:
    """Encodings, borders, codes, histograms: the values of each expression."""
    cases: Cases = {}
    for kind in ["ordered", "kfold", "loo", "full"]:
        for target in ["number", "binary"]:
            for weight in [None, "w"]:
                name = f"encode-{kind}-{target}-{'weight' if weight else 'plain'}"
                cases[name] = _values(
                    lambda kind=kind, target=target, weight=weight: tg.target_encode(
                        "city", target, kind=kind, weight=weight, seed=3, device=DEVICE
                    )
                )
    cases["encode-auto"] = _values(
        lambda: tg.target_encode("city", "number", kind="kfold", prior_weight="auto", seed=3, device=DEVICE)
    )
    cases["encode-order-by"] = _values(lambda: tg.target_encode("city", "number", order_by="day", device=DEVICE))
    for target in ["number", "binary"]:
        cases[f"encoder-{target}"] = lambda target=target: (
            table(1500).select(tg.fit_target_encoder(["city", "color"], target, weight="w", device=DEVICE)).item()
        )
    cases["woe"] = _values(lambda: tg.woe(["city", "color"], "binary"))
    cases["information-value"] = _values(lambda: tg.information_value(["city", "color"], "binary", weight="w"))
    cases["count"] = _values(lambda: tg.count_encode("city"))
    cases["combine"] = _values(lambda: tg.combine("city", "color", "code", device=DEVICE))
    for method in ["quantile", "uniform", "greedy_logsum", "min_max_entropy"]:
        cases[f"borders-{method}"] = _values(lambda method=method: tg.borders("a", 61, method=method, device=DEVICE))
        cases[f"quantize-{method}"] = _values(lambda method=method: tg.quantize("d", 61, method=method, device=DEVICE))
    cases["histogram"] = _values(lambda: tg.histogram("a", bins=17, weights="w", device=DEVICE))
    cases["histogram2d"] = _values(lambda: tg.histogram2d("a", "b", bins=5, device=DEVICE))
    cases["min-max"] = _values(lambda: tg.min_max("d", device=DEVICE))
    return cases


def all_cases() -> Cases:
    """Every case by its name."""
    return {**gbdt(), **ranking(), **categories(), **forests(), **linear(), **encodings()}
