"""What pictures ask of a model and a frame: predictions, Shapley values, labels, and what these are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import polars as pl

from polars_taiga import _plugin
from polars_taiga._names import by_name
from polars_taiga._scores import class_names, class_text, listed, score_title
from polars_taiga.model import Model
from polars_taiga.predict import columns_by_name, predict_by_name, target_by_name

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn

# A linear model's Shapley values compare with rows; so many do.
_BACKGROUND = 500


def checked_model(model: object) -> Model:
    """Check that it is a model, or make it of its bytes."""
    if isinstance(model, Model):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return Model.from_bytes(bytes(model))
    msg = f"a picture is of a tg.Model, not of {type(model).__name__}"
    raise TypeError(msg)


def models(of: Model | Mapping[str, Model]) -> dict[str, Model]:
    """Name the models: one has no name."""
    if not isinstance(of, Mapping):
        return {"": checked_model(of)}
    if not of:
        msg = "parameter `model`: no models"
        raise ValueError(msg)
    return {str(name): checked_model(model) for name, model in of.items()}


def named(model: Model) -> str:
    """What a model predicts, for an error: its target, or all that it has."""
    return listed(f"`{target}`" for target in model.targets or [model.target])


def title_of(model: Model, drawn: Sequence[str | None] = ()) -> str:
    """What a picture is about: the target; of several the one that is drawn, or all, the first three by name."""
    if model.targets is None:
        return model.target
    shown = [name for name in drawn if name is not None] if len(drawn) == 1 else model.targets
    return ", ".join(shown[:3]) + (f", … ({len(shown)})" if len(shown) > 3 else "")


def frame_of(data: object) -> pl.LazyFrame:
    """Check that it is a frame."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data.lazy()
    msg = f"rows come in a DataFrame or a LazyFrame, not in {type(data).__name__}"
    raise TypeError(msg)


def of_frame(column: IntoColumn, role: str) -> pl.Expr:
    """A column of the frame by its name, or an expression."""
    return by_name(column) if isinstance(column, str) else _plugin.as_expr(column, role)


def collect(query: pl.LazyFrame, what: str = "frame") -> pl.DataFrame:
    """Run a query of ours; no rows are an error."""
    with _plugin.errors():
        frame = query.collect()
    if frame.height == 0:
        msg = f"{what}: no rows"
        raise ValueError(msg)
    return frame


def feature_rows(model: Model, frame: object, rows: int, seed: int = 0) -> pl.DataFrame:
    """The model's columns of a sample of the rows, in their order."""
    found = collect(frame_of(frame).select(columns_by_name(model)))
    if found.height <= rows:
        return found
    numbers = pl.int_range(found.height, eager=True).sample(rows, seed=seed).sort()
    sample: pl.DataFrame = found[numbers]
    return sample


def _of_classes(model: Model, explained: pl.Series) -> dict[str | None, pl.Series]:
    """An explanation by class; one of None where there is one output."""
    if model._inner.outputs() == 1 and model.targets is None:
        return {None: explained}
    return {of.name: of for of in explained.struct.unnest().get_columns()}


def _explain(
    model: Model, frame: pl.DataFrame, output: Literal["shap", "shap_interactions"], others: pl.DataFrame | None = None
) -> dict[str | None, pl.Series]:
    background = None
    if model._inner.needs_background():
        compared = frame if others is None else others
        background = compared.sample(min(compared.height, _BACKGROUND), seed=0)
    explained = collect(
        frame.lazy().select(predict_by_name(model, output=output, background=background).alias("explained"))
    )
    return _of_classes(model, explained.to_series())


def _shap(model: Model, frame: pl.DataFrame, others: pl.DataFrame | None = None) -> dict[str | None, pl.DataFrame]:
    """Shapley values by class: a column for each of the model's, and `base_value`. Of a linear model that does not know
    its training rows' means, against a sample of the same rows, or of the others.
    """
    return {name: values.struct.unnest() for name, values in _explain(model, frame, "shap", others).items()}


def _shap_interactions(model: Model, frame: pl.DataFrame) -> dict[str | None, pl.DataFrame]:
    """The mean size of each pair's interaction by class: a column for each of the model's, and its row for each."""
    means = {}
    for name, values in _explain(model, frame, "shap_interactions").items():
        of_columns = values.struct.unnest()
        lines = [of_columns[column].struct.unnest() for column in explained_columns(model)]
        means[name] = pl.concat([line.select(pl.all().abs().mean()) for line in lines])
    return means


def explained_columns(model: Model) -> list[str]:
    """The columns that Shapley values are of, in the order of fitting."""
    return model._inner.explained_columns()


def outputs(model: Model, label: object, most: int) -> list[str | None]:
    """The outputs to draw: the one of a regression or two classes, the class that was chosen, or all."""
    if model._inner.outputs() == 1 and model.targets is None:
        if label is not None:
            msg = "parameter `label`: it chooses between more than two classes, several quantiles or several targets"
            raise ValueError(msg)
        return [None]
    if label is not None:
        return [class_text(model, label)]
    names = class_names(model)
    if len(names) > most:
        several = "classes" if model.classes is not None else "numbers that are predicted"
        what = f"`{model.target}` has {len(names)} {several}"
        if model.targets is not None:
            what = f"the model predicts {len(names)} targets, {named(model)}"
        msg = f"parameter `label`: {what}, and at most {most} are drawn: name one"
        raise ValueError(msg)
    return list(names)


def unit_of(model: Model, drawn: list[str | None]) -> str:
    """What the raw scores of the drawn outputs are."""
    if len(drawn) == 1:
        return score_title(model, drawn[0])
    return f"{'probability' if model.learner == 'forest' else 'score'} of each {each_of(model)}"


def each_of(model: Model) -> str:
    """What each of several outputs is one of."""
    return model.target if model.targets is None else "target"


def scored(
    model: Model, frame: object, target: IntoColumn | None, weights: IntoColumn | None, **more: pl.Expr
) -> pl.DataFrame:
    """The columns `prediction`, `target`, `weight` and `more` of the rows with a target and a weight above 0.

    Weights are checked.
    """
    known = target_by_name(model) if target is None else of_frame(target, "the target")
    weight = pl.lit(1.0) if weights is None else of_frame(weights, "weights").cast(pl.Float64)
    prediction = predict_by_name(model)
    if model.targets is not None:
        what = "several targets" if len(model.targets) > 1 else "a struct of one target"
        msg = f"the model of {named(model)} predicts {what}, and one is drawn: fit it alone"
        raise ValueError(msg)
    if model.classes is None and model._inner.outputs() > 1:
        if model.loss != "gaussian":
            msg = f"the model of `{model.target}` predicts several quantiles, and one number is drawn: fit one quantile"
            raise ValueError(msg)
        prediction = prediction.struct.field("mean")
    query = frame_of(frame).select(
        prediction.alias("prediction"), known.alias("target"), weight.alias("weight"), **more
    )
    rows = collect(query)
    bad = rows.filter(~(pl.col("weight").is_finite() & (pl.col("weight") >= 0)).fill_null(False)).height
    if bad:
        msg = f"parameter `weights`: {bad} of {rows.height} weights are null, negative or not finite"
        raise ValueError(msg)
    unknown = pl.col("target").is_null()
    if rows.schema["target"].is_float():
        unknown |= pl.col("target").is_nan()
    rows = rows.filter(~unknown, pl.col("weight") > 0)
    if rows.height == 0:
        msg = f"target `{model.target}`: it is null, or the weight 0, in every row"
        raise ValueError(msg)
    return rows


def one_against_rest(model: Model, rows: pl.DataFrame, label: object) -> dict[str, pl.DataFrame]:
    """Of `scored` rows, for each class to draw: `score`, `positive` and `weight`. Of two classes: the second."""
    names = class_names(model)
    if model.classes is None:
        msg = f"the model of `{model.target}` is a regression and has no classes"
        raise ValueError(msg)
    actual = _labels(model, rows["target"])
    if label is None:
        chosen = names[-1:] if len(names) == 2 else names
    else:
        several = isinstance(label, Sequence) and not isinstance(label, str)
        chosen = [class_text(model, one) for one in (cast("Sequence[Any]", label) if several else [label])]
    drawn = {}
    for name in chosen:
        if model._inner.outputs() > 1:
            score = rows["prediction"].struct.unnest()[name]
        else:
            score = rows["prediction"] if name == names[-1] else 1 - rows["prediction"]
        positive = actual == name
        if positive.all() or not positive.any():
            msg = f"target `{model.target}`: {'every' if positive.all() else 'no'} row is {name}"
            raise ValueError(msg)
        drawn[name] = pl.DataFrame({"score": score, "positive": positive, "weight": rows["weight"]})
    return drawn


def _labels(model: Model, target: pl.Series) -> pl.Series:
    """The names of the classes that a target's values are."""
    classes, names = model.classes or [], class_names(model)
    if target.dtype in (pl.Categorical, pl.Enum):
        target = target.cast(pl.String)
    values = target.unique(maintain_order=True).to_list()
    known: dict[Any, str] = {(isinstance(c, bool), c): name for c, name in zip(classes, names, strict=True)}
    strange = [value for value in values if (isinstance(value, bool), value) not in known]
    if strange:
        msg = f"target `{model.target}`: {strange[0]!r} is none of the model's classes, {listed(map(repr, classes))}"
        raise ValueError(msg)
    texts = [known[(isinstance(value, bool), value)] for value in values]
    names_of: pl.Series = target.replace_strict(values, texts, return_dtype=pl.String)
    return names_of
