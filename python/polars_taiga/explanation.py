"""One row's way to its prediction, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _plugin, _scores
from polars_taiga.predict import predict

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumns
    from polars_taiga.model import Model

__all__ = ["Explanation"]

# Features that a text names one by one; the others stand in one line.
_LINES = 15


class Explanation:
    """What moved one row's score from the mean to where it is, made by `Model.explain`.

    Attributes
    ----------
    base_value
        The score of which nothing is known: the mean over the training rows, or over a background.
    contributions
        A DataFrame, the largest first: `feature`, the row's `value` as text, and its `contribution`, a Float64 in the
        score's unit. Contributions and the base value sum to `score`.
    score
        The raw score; of a forest the prediction.
    prediction
        The prediction in the target's unit, or the probability of the class that is explained.
    label
        The name of that class, None of a regression.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") + pl.col("z"))
    >>> explanation = df.taiga.fit_gbdt("y", "x", "z", rounds=3).explain(df[99])
    >>> explanation.contributions["feature"].to_list()
    ['x', 'z']
    """

    __slots__ = ("_response", "_title", "base_value", "contributions", "label", "prediction", "score")

    def __init__(
        self, model: Model, row: pl.DataFrame, explained: dict[str, float], prediction: float, label: str | None
    ) -> None:
        self.base_value = explained["base_value"]
        self.prediction = prediction
        self.label = label
        names = [name for name in explained if name != "base_value"]
        # Columns that expressions made at the fit may have no column of their name in the row.
        values = [_shown(row[name].item()) if name in row.columns else "" for name in names]
        self.contributions = (
            pl.DataFrame(
                {"feature": names, "value": values, "contribution": [explained[name] for name in names]},
                schema={"feature": pl.String, "value": pl.String, "contribution": pl.Float64},
            )
            .with_row_index("row")
            .sort(pl.col("contribution").abs(), "row", descending=[True, False])
            .drop("row")
        )
        self.score = self.base_value + sum(explained[name] for name in names)
        of_class = label if model._inner.outputs() > 1 else None
        self._title = _scores.score_title(model, of_class)
        self._response = None if _scores.in_unit_of_target(model) else _scores.probability_title(model, of_class)

    def __repr__(self) -> str:
        """A line for the base value, for each feature in order, and for the result."""
        lines = [("base value", f"{self.base_value:.6g}")]
        for feature, value, contribution in self.contributions.head(_LINES).iter_rows():
            lines.append((f"{feature} = {value}" if value else feature, f"{contribution:+.6g}"))
        rest = self.contributions.slice(_LINES)
        if not rest.is_empty():
            lines.append((f"{rest.height:,} others", f"{sum(rest['contribution']):+.6g}"))
        lines.append(("result", f"{self.score:.6g}"))
        if self._response is not None:
            lines.append((self._response, f"{self.prediction:.6g}"))
        left, right = max(len(name) for name, _ in lines), max(len(number) for _, number in lines)
        return "\n".join([self._title, *(f"  {name:<{left}}  {number:>{right}}" for name, number in lines)])


def _shown(value: Any) -> str:
    """A value in one short line."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def explain(
    model: Model,
    row: pl.DataFrame | pl.LazyFrame | Mapping[str, Any],
    *features: IntoColumns,
    label: object = None,
    background: pl.DataFrame | None = None,
) -> Explanation:
    """Explain one row by a model; see `Model.explain`."""
    if isinstance(row, Mapping):
        row = pl.DataFrame({name: [value] for name, value in row.items()})
    if not isinstance(row, pl.DataFrame | pl.LazyFrame):
        kind = type(row).__name__  # type: ignore[unreachable]
        msg = f"parameter `row`: a DataFrame of one row or a dictionary of a row's values, not {kind}"
        raise TypeError(msg)
    with _plugin.errors():
        row = row.lazy().collect()
        if row.height != 1:
            msg = f"parameter `row`: {row.height:,} rows; one is explained, as `frame[7]` is"
            raise ValueError(msg)
        asked = row.select(
            predict(model, *features, output="shap", background=background).alias("shap"),
            predict(model, *features).alias("auto"),
        ).row(0, named=True)
    explained, predicted = asked["shap"], asked["auto"]
    names = _scores.class_names(model)
    if model._inner.outputs() == 1:
        if label is not None:
            msg = "parameter `label`: it chooses between more than two classes, or several quantiles"
            raise ValueError(msg)
        return Explanation(model, row, explained, predicted, names[-1] if names else None)
    # Raw scores may have other names than predictions have: a logarithm of a deviation, and a variance.
    numbers = list(predicted.values())
    at = _scores.first_choice(model, numbers) if label is None else names.index(_scores.class_text(model, label))
    return Explanation(model, row, explained[names[at]], numbers[at], names[at])
