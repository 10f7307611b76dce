"""Models of XGBoost, LightGBM, CatBoost and scikit-learn as models of this package."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polars_taiga import _taiga
from polars_taiga._warn import warn
from polars_taiga.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["import_model"]

# Euler's constant, as scikit-learn has it.
_EULER = 0.5772156649015329


def import_model(
    source: object,
    *,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    classes: Sequence[Any] | None = None,
    target: str = "target",
) -> Model:
    """Make a model of one that another library has fitted.

    It is a model as any other: it predicts in expressions on every device, explains, is drawn and exported. Its
    splits decide as those of the library do, also on their thresholds, and where values are missing. Scores are equal:
    to XGBoost's, which adds 32-bit numbers, within about 1e-6 of the largest (a few times that with thousands of trees,
    and of what is the exponential of a score), to others' but for the last bits.

    Parameters
    ----------
    source
        An object: a `Booster` or an estimator of `xgboost` or `lightgbm`, a model of `catboost`, of `scikit-learn` a
        fitted `RandomForest`, `ExtraTrees`, `GradientBoosting`, `HistGradientBoosting`, decision tree or
        `IsolationForest`. Or a file's bytes, or a path: JSON or UBJSON of XGBoost (1.0 to 3.2), text of LightGBM (2 to
        4), JSON or cbm of CatBoost.
    features
        The columns' names, in the order in which the library knows them; default those that it tells, else `f0`, `f1`.
    categories
        Of columns of categories, by name, the categories in the order of the numbers that the library gave them.
        Default those that the file tells (XGBoost since 3.1, LightGBM's of pandas); else columns are of these numbers.
        CatBoost's are known by a hash of their text, so none need be told; those that are, in any order, have names in
        the model, which can then be exported if no statistic combines columns.
    classes
        The class labels in the library's order; default those of an estimator of classes, else 0, 1, …
    target
        What the target is called.

    Returns
    -------
    Model
        With `metadata` that tell the library, its version and its loss. Parameters are the defaults and say nothing.

    Raises
    ------
    ValueError
        For what can't be read, and what can't be kept exactly: the text says what it is. For an estimator that is not
        fitted. For categories and classes that are not finite, or of several kinds.
    TypeError
        For an object of another kind, for names that are no list of texts, and for categories and classes that are no
        lists of text, numbers or Booleans.

    Warns
    -----
    TargetWarning
        For a threshold of CatBoost's probabilities, which `output="class"` does not follow.

    Examples
    --------
    >>> import lightgbm
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "y": [0.0, 1.0] * 50})
    >>> rows = lightgbm.Dataset(df.select("x").to_numpy(), df["y"].to_numpy(), feature_name=["x"])
    >>> booster = lightgbm.train({"verbose": -1}, rows, 3)
    >>> model = tg.import_model(booster, target="y")
    >>> model.rounds, model.metadata["imported_from"]
    (3, 'LightGBM v4')
    >>> bool((abs(model.predict(df).to_numpy() - booster.predict(df.select("x").to_numpy())) < 1e-15).all())
    True
    """
    if target is not None and not isinstance(target, str):
        msg = f"import_model: `target` is a text, not {target!r:.80}"  # type: ignore[unreachable]
        raise TypeError(msg)
    told: dict[str, Any] = {"target": target}
    if features is not None:
        told["features"] = _listed("features", features)
        if other := [name for name in told["features"] if not isinstance(name, str)]:
            msg = f"import_model: `features` are texts, and {other[0]!r} is none"
            raise TypeError(msg)
    if categories is not None:
        if not isinstance(categories, Mapping):
            msg = f"import_model: `categories` are lists by column, {{'job': ['cook', …]}}, not {categories!r:.80}"  # type: ignore[unreachable]
            raise TypeError(msg)
        told["categories"] = {name: _labels("categories", own, name) for name, own in categories.items()}
    if classes is not None:
        told["classes"] = _classes(classes)
    data, known = _bytes_of(source)
    # Editors of Windows write a mark before a text.
    data = data.removeprefix(b"\xef\xbb\xbf")
    # In JSON a quotation mark within a text has a backslash before it.
    is_json = re.match(rb'\s*\{\s*"', data) and re.search(rb'"format"\s*:\s*"polars-taiga ', data)
    if data.startswith(b"TAIGA\0") or is_json:
        msg = "import_model: these bytes are of polars-taiga itself: tg.Model.load reads its models"
        raise ValueError(msg)
    model = _made(data, told)
    if known is not None and classes is None and model.classes is not None:
        # An estimator's labels are those of a model of classes; one of several targets has some too.
        labels = _classes(known)
        if json.dumps(labels) != json.dumps(model.classes):
            model = _made(data, {**told, "classes": labels})
    threshold = model.metadata.get("probability_threshold")
    if threshold is not None:
        warn(
            f"CatBoost predicts the second class above a probability of {threshold}, and a model here above 0.5: "
            'probabilities are the same, output="class" differs'
        )
    return model


def _made(data: bytes, told: Mapping[str, Any]) -> Model:
    return Model(_taiga.Model.imported(data, json.dumps(told)).to_bytes())


def _listed(parameter: str, values: Iterable[Any], of: str = "") -> list[Any]:
    """A parameter's names or labels without NumPy's types. `of`: the column that they are of, as errors say it."""
    if isinstance(values, str | bytes):
        msg = f"import_model: {of}`{parameter}` takes lists, not the text {values!r}"
        raise TypeError(msg)
    try:
        found = list(values)
    except TypeError:
        msg = f"import_model: {of}`{parameter}` takes lists, not {values!r:.80}"
        raise TypeError(msg) from None
    return [value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value for value in found]


def _labels(parameter: str, values: Iterable[Any], column: str | None = None) -> list[Any]:
    """A parameter's categories or classes, which are text, numbers or Booleans."""
    of = "" if column is None else f"column `{column}`: "
    labels = _listed(parameter, values, of)
    for label in labels:
        if not isinstance(label, bool | int | float | str):
            msg = f"import_model: {of}`{parameter}` are text, numbers or Booleans, and {label!r:.80} is none"
            raise TypeError(msg)
        if isinstance(label, float) and not math.isfinite(label):
            msg = f"import_model: {of}`{parameter}` are finite, and {label} is not"
            raise ValueError(msg)
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            msg = f"import_model: {of}`{parameter}` are integers of 64 bits, and {label} is none"
            raise ValueError(msg)
    return labels


def _classes(values: Iterable[Any]) -> list[Any]:
    """The labels of classes, which are all of one kind."""
    labels = _labels("classes", values)
    for label in labels:
        if type(label) is not type(labels[0]):
            msg = f"import_model: `classes` are of one kind, and {labels[0]!r:.80} and {label!r:.80} are of two"
            raise ValueError(msg)
    return labels


def _bytes_of(source: object) -> tuple[bytes, Sequence[Any] | None]:
    """The file of a model, and the labels that the object knows, which are of classes or of nothing."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), None
    if isinstance(source, str | os.PathLike):
        return Path(source).read_bytes(), None
    own: Any = source
    for kind in type(source).__mro__:
        library = kind.__module__.split(".")[0]
        if library == "xgboost":
            return _of_xgboost(own)
        if library == "lightgbm":
            return _of_lightgbm(own)
        if library == "catboost":
            return _of_catboost(own)
        if library == "sklearn":
            return _of_sklearn(own)
    raise _unknown(own)


def _unknown(own: object) -> TypeError:
    return TypeError(f"import_model: {type(own).__name__} is no model of a library that is known here")


def _unfitted(own: object) -> ValueError:
    return ValueError(f"import_model: the {type(own).__name__} is not fitted")


def _of_xgboost(own: Any) -> tuple[bytes, Sequence[Any] | None]:
    labels = None
    booster = own
    if hasattr(own, "get_booster"):
        if not own.__sklearn_is_fitted__():
            raise _unfitted(own)
        missing = own.missing
        if missing is not None and missing == missing:
            msg = (
                f"XGBoost: the {type(own).__name__} takes {missing} as missing (`missing`), and a model here null and "
                f"NaN: import its `get_booster()`, and predict on rows that have null instead of {missing}"
            )
            raise ValueError(msg)
        booster = own.get_booster()
        labels = own.classes_ if hasattr(own, "classes_") and hasattr(own, "predict_proba") else None
        # What an estimator predicts by.
        best = getattr(own, "best_iteration", None) if booster.attr("best_iteration") is not None else None
        if best is not None:
            booster = booster[: best + 1]
    if not hasattr(booster, "save_raw"):
        raise _unknown(own)
    return bytes(booster.save_raw("ubj")), labels


def _of_lightgbm(own: Any) -> tuple[bytes, Sequence[Any] | None]:
    labels = None
    booster = own
    if hasattr(type(own), "booster_"):
        labels = getattr(own, "classes_", None) if hasattr(own, "predict_proba") else None
        booster = getattr(own, "booster_", None)
        if booster is None:
            raise _unfitted(own)
    if not hasattr(type(booster), "num_trees"):
        raise _unknown(own)
    return booster.model_to_string().encode(), labels


def _of_catboost(own: Any) -> tuple[bytes, Sequence[Any] | None]:
    if not hasattr(own, "is_fitted"):
        raise _unknown(own)
    if not own.is_fitted():
        raise _unfitted(own)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        own.save_model(str(path), format="cbm")
        labels = getattr(own, "classes_", ())
        return path.read_bytes(), labels if len(labels) else None


def _of_sklearn(own: Any) -> tuple[bytes, Sequence[Any] | None]:
    name = type(own).__name__
    makers = {
        "RandomForestClassifier": _forest,
        "RandomForestRegressor": _forest,
        "ExtraTreesClassifier": _forest,
        "ExtraTreesRegressor": _forest,
        "DecisionTreeClassifier": _forest,
        "DecisionTreeRegressor": _forest,
        "ExtraTreeClassifier": _forest,
        "ExtraTreeRegressor": _forest,
        "GradientBoostingClassifier": _gradient_boosting,
        "GradientBoostingRegressor": _gradient_boosting,
        "HistGradientBoostingClassifier": _hist_gradient_boosting,
        "HistGradientBoostingRegressor": _hist_gradient_boosting,
        "IsolationForest": _isolation_forest,
    }
    maker = next((makers[kind.__name__] for kind in type(own).__mro__ if kind.__name__ in makers), None)
    if maker is None:
        msg = f"import_model: {name} is no estimator of trees that is read"
        raise TypeError(msg)
    if not hasattr(own, "n_features_in_"):
        raise _unfitted(own)
    import sklearn

    names = [str(n) for n in getattr(own, "feature_names_in_", [f"x{i}" for i in range(own.n_features_in_)])]
    made: dict[str, Any] = {
        "taiga_arrays": 1,
        "library": f"scikit-learn {sklearn.__version__}",
        "objective": str(getattr(own, "loss", None) or getattr(own, "criterion", None) or name),
        "columns": [{"name": n, "is_categorical": False, "categories": None} for n in names],
        "is_f32": True,
        "is_forest": False,
        "start": [0.0],
        "rows": 0,
    }
    labels = maker(own, made)
    return json.dumps(made).encode(), labels


def _tree(fitted: Any, values: Any, output: int = 0, columns: Any = None) -> dict[str, Any]:
    """A tree of scikit-learn as plain arrays; `values`, `[node, width]`; `columns`: those that it numbers."""
    import numpy as np

    is_leaf = fitted.children_left < 0
    column = np.where(is_leaf, 0, fitted.feature)
    if columns is not None:
        column = np.where(is_leaf, 0, np.asarray(columns)[column])
    missing_left = getattr(fitted, "missing_go_to_left", np.zeros(len(column)))
    return {
        "output": output,
        "width": int(values.shape[1]),
        "column": column.tolist(),
        "threshold": [_number(x) for x in np.where(is_leaf, 0.0, fitted.threshold).tolist()],
        "missing_left": np.asarray(missing_left, bool).tolist(),
        "left": fitted.children_left.tolist(),
        "right": fitted.children_right.tolist(),
        "sets": [],
        "values": values.astype(np.float64).ravel().tolist(),
        "weights": fitted.weighted_n_node_samples.tolist(),
        "counts": fitted.n_node_samples.tolist(),
    }


def _forest(own: Any, made: dict[str, Any]) -> Sequence[Any] | None:
    """A forest, or a single tree as one."""
    members = [e.tree_ for e in own.estimators_] if hasattr(own, "estimators_") else [own.tree_]
    is_classifier = hasattr(own, "predict_proba")
    outputs = own.n_outputs_
    if is_classifier and outputs > 1:
        msg = f"import_model: a forest of {outputs} targets of classes is more than a model here predicts"
        raise ValueError(msg)
    made["rows"] = int(members[0].n_node_samples[0])
    if is_classifier or outputs == 1:
        made |= {"is_forest": True, "loss": "multiclass" if is_classifier else "rmse", "classes": is_classifier}
        if is_classifier:
            made["start"] = [0.0] * len(own.classes_)
        for tree in members:
            values = tree.value[:, 0, :]
            shares = values / values.sum(axis=1, keepdims=True) if is_classifier else values
            made.setdefault("trees", []).append(_tree(tree, shares))
        return own.classes_ if is_classifier else None
    # Several targets: boosted trees that add up to the mean.
    made |= {"loss": "rmse", "classes": False, "start": [0.0] * outputs}
    made["trees"] = [_tree(tree, tree.value[:, :, 0] / len(members)) for tree in members]
    return None


def _gradient_boosting(own: Any, made: dict[str, Any]) -> Sequence[Any] | None:
    import numpy as np

    is_classifier = hasattr(own, "predict_proba")
    outputs = own.estimators_.shape[1]
    first = np.zeros((1, own.n_features_in_), np.float32)
    if own.init_ != "zero" and type(own.init_).__name__ not in ("DummyClassifier", "DummyRegressor"):
        msg = f"import_model: the scores begin with those of a {type(own.init_).__name__}, which is no constant"
        raise ValueError(msg)
    start = np.asarray(own._raw_predict_init(first), np.float64).reshape(-1)
    # The exponential loss's probabilities are those of twice the score.
    by = 2.0 if is_classifier and own.loss == "exponential" else 1.0
    made |= {
        "loss": ("logloss" if outputs == 1 else "multiclass") if is_classifier else "rmse",
        "classes": is_classifier,
        "start": (start * by).tolist(),
        "rows": int(own.estimators_[0, 0].tree_.n_node_samples[0]),
        "trees": [
            _tree(member.tree_, by * (own.learning_rate * member.tree_.value[:, 0, :]), output)
            for of_round in own.estimators_
            for output, member in enumerate(of_round)
        ],
    }
    return own.classes_ if is_classifier else None


_HIST_LOSSES = {"poisson": "poisson", "gamma": "gamma", "absolute_error": "mae"}


def _hist_gradient_boosting(own: Any, made: dict[str, Any]) -> Sequence[Any] | None:
    import numpy as np

    is_classifier = hasattr(own, "predict_proba")
    start = np.asarray(own._baseline_prediction, np.float64).reshape(-1)
    order = np.arange(own.n_features_in_)
    own_names = [column["name"] for column in made["columns"]]
    told: dict[int, Any] = {}
    is_categorical = getattr(own, "is_categorical_", None)
    if is_categorical is not None and getattr(own, "_preprocessor", None) is not None:
        # Its columns of categories come first, numbered by an encoder. (`_is_categorical_remapped` is of that order.)
        remapped = np.asarray(own._is_categorical_remapped, bool)
        (encoded,) = [t for name, t, _ in own._preprocessor.transformers_ if name == "encoder"]
        (chosen,) = [c for name, _, c in own._preprocessor.transformers_ if name == "encoder"]
        picked = np.asarray(chosen)
        first = np.flatnonzero(picked) if picked.dtype == bool else picked
        order = np.concatenate([first, np.setdiff1d(order, first)])
        told = {int(column): list(known) for column, known in zip(first, encoded.categories_, strict=True)}
        assert remapped[: len(first)].all()
    for column, known in told.items():
        labels = _listed("categories", known)
        # NaN and None are missing, not categories.
        labels = [label for label in labels if label is not None and label == label]
        labels = [int(x) if isinstance(x, float) and x.is_integer() else x for x in labels]
        labels = _labels("categories", labels, own_names[column])
        made["columns"][column] |= {"is_categorical": True, "categories": labels}
        if any(isinstance(x, float) for x in labels):
            msg = f"import_model: the categories of `{own_names[column]}` are not all integers or text"
            raise ValueError(msg)
    trees = []
    for of_round in own._predictors:
        for output, predictor in enumerate(of_round):
            trees.append(_hist_tree(predictor, output, order, told))
    made |= {
        "is_f32": False,
        "loss": ("logloss" if len(start) == 1 else "multiclass")
        if is_classifier
        else _HIST_LOSSES.get(own.loss, "rmse"),
        "classes": is_classifier,
        "start": start.tolist(),
        "rows": int(own._predictors[0][0].nodes["count"][0]) if own._predictors else 0,
        "trees": trees,
    }
    return own.classes_ if is_classifier else None


def _hist_tree(predictor: Any, output: int, order: Any, told: Mapping[int, Any]) -> dict[str, Any]:
    import numpy as np

    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    column = np.where(is_leaf, 0, order[np.where(is_leaf, 0, nodes["feature_idx"])])
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    missing_left = nodes["missing_go_to_left"].astype(bool)
    sets: list[list[int] | None] = [None] * len(nodes)
    for i in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][i]]
        listed = {32 * w + b for w, word in enumerate(words.tolist()) for b in range(32) if word >> b & 1}
        if missing_left[i]:
            # Unknown ones go left: what is listed then is what goes right, and the sides change.
            known = len(told.get(int(column[i]), ()))
            listed = set(range(known)) - listed
            left[i], right[i] = right[i], left[i]
            missing_left[i] = False
        sets[i] = sorted(listed)
    return {
        "output": output,
        "width": 1,
        "column": column.tolist(),
        "threshold": [_number(x) for x in np.where(is_leaf, 0.0, nodes["num_threshold"]).tolist()],
        "missing_left": missing_left.tolist(),
        "left": np.where(is_leaf, -1, left).tolist(),
        "right": np.where(is_leaf, -1, right).tolist(),
        "sets": sets,
        "values": nodes["value"].astype(np.float64).tolist(),
        "weights": nodes["count"].astype(np.float64).tolist(),
        "counts": nodes["count"].tolist(),
    }


def _number(x: float) -> float | str:
    """A number as the plugin's JSON has it."""
    return x if math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def _path_length(rows: Any) -> Any:
    """The mean path length of an unsuccessful search among so many rows."""
    import numpy as np

    n = np.asarray(rows, np.float64)
    long = np.maximum(n, 3.0)
    return np.where(n <= 1, 0.0, np.where(n <= 2, 1.0, 2.0 * (np.log(long - 1.0) + _EULER) - 2.0 * (long - 1.0) / long))


def _isolation_forest(own: Any, made: dict[str, Any]) -> Sequence[Any] | None:
    """What is predicted is the score of the paper, 2^(-path / mean path): `-score_samples`."""
    import numpy as np

    depth = len(own.estimators_) * float(_path_length(own._max_samples))
    if depth == 0:
        msg = "import_model: the IsolationForest was fitted on one row a tree"
        raise ValueError(msg)
    trees = []
    for member, columns in zip(own.estimators_, own.estimators_features_, strict=True):
        tree = member.tree_
        path = tree.compute_node_depths() - 1.0 + _path_length(tree.n_node_samples)
        values = -math.log(2.0) * path / depth
        trees.append(_tree(tree, np.asarray(values).reshape(-1, 1), columns=columns))
    rows = int(own.estimators_[0].tree_.n_node_samples[0])
    made |= {"loss": "poisson", "classes": False, "rows": rows, "objective": "isolation forest", "trees": trees}
    return None
