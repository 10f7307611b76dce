"""Metrics of one's own: means over rows, in the symbols of `tg.loss`, and what is made of them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polars_taiga import _fit, _plugin, _taiga
from polars_taiga.loss import Symbol, _column, _ordered, _symbol, _text

if TYPE_CHECKING:
    from typing import Literal

    import polars as pl

    from polars_taiga._plugin import IntoColumn

__all__ = ["CustomMetric", "mean", "metric"]


def mean(value: Symbol | float) -> Symbol:
    """Average over rows, in the function of `tg.metric`, each weighed by its weight.

    Parameters
    ----------
    value
        What is averaged: symbols of a row.

    Raises
    ------
    TypeError
        For what is no symbol.

    Examples
    --------
    >>> import polars_taiga as tg
    >>> tg.metric(lambda y, p: tg.mean((y - p) ** 2) / tg.mean(y**2), name="relative")
    metric(lambda y, p: mean((y - p) ** 2) / mean(y ** 2), name="relative")
    """
    return Symbol("mean()", _symbol(value))


class CustomMetric:
    """A metric of one's own, as `tg.metric` makes it. Called with columns it is an expression."""

    __slots__ = ("_columns", "_larger_is_better", "_means", "_name", "_value")

    def __init__(self, value: str, means: list[str], *, name: str, larger_is_better: bool) -> None:
        """Of the formulas as the engine reads them; `tg.metric` makes them of a function."""
        self._value, self._means, self._name, self._larger_is_better = value, list(means), name, larger_is_better
        self._columns: list[str] = _taiga.metric_columns(json.dumps(self._formulas()))

    @classmethod
    def _of(cls, formulas: Mapping[str, Any]) -> CustomMetric:
        """Of what a model keeps."""
        larger = formulas.get("larger_is_better", False)
        return cls(formulas["value"], formulas["means"], name=formulas["name"], larger_is_better=larger)

    def _formulas(self) -> dict[str, Any]:
        """As parameters of the engine have it."""
        own = {"name": self._name, "means": self._means, "value": self._value}
        return {**own, "larger_is_better": self._larger_is_better}

    @property
    def name(self) -> str:
        """What it is called, in `Model.history` say."""
        return self._name

    @property
    def value(self) -> str:
        """The formula, as text."""
        return re.sub(r"\bm(\d+)\b", lambda m: f"mean({self._means[int(m[1])]})", self._value)

    @property
    def columns(self) -> list[str]:
        """The columns that it reads beside target and prediction."""
        return list(self._columns)

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value is a better one."""
        return self._larger_is_better

    def __call__(
        self,
        target: IntoColumn,
        predicted: IntoColumn,
        *,
        weight: IntoColumn | None = None,
        on_error: Literal["raise", "null"] = "raise",
    ) -> pl.Expr:
        """Measure a column of predictions, as the functions of `tg.metrics` do: one Float64, of the metric's name.

        Parameters
        ----------
        target, predicted
            Columns of numbers.
        weight, on_error
            As in `tg.metrics.rmse`.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> worst = tg.metric(lambda y, p: tg.mean((y - p).abs() > 1), name="far_off")
        >>> pl.DataFrame({"y": [1.0, 2.0], "p": [1.5, 4.0]}).select(worst("y", "p")).item()
        0.5
        """
        return measured(
            self._name, self, target, predicted, weight=weight, on_error=on_error, columns=tuple(self._columns)
        )

    def __repr__(self) -> str:
        """As it could have been made, of functions that are called by their names."""
        names = "".join(
            f", {name}" if name.isidentifier() and name not in "yp" else f", `{name}`" for name in self._columns
        )
        known = {name for name in self._columns if name.isidentifier() and name not in "yp"}
        value = re.sub(r"`([^`]*)`", lambda m: m[1] if m[1] in known else m[0], self.value)
        larger = ", larger_is_better=True" if self._larger_is_better else ""
        return f'metric(lambda y, p{names}: {value}, name="{self._name}"{larger})'

    def __eq__(self, other: object) -> bool:
        """Whether name, formulas and direction are the same."""
        return isinstance(other, CustomMetric) and self._formulas() == other._formulas()

    def __hash__(self) -> int:
        """By name and formula."""
        return hash((self._name, self._value, *self._means))

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled and copied."""
        return (_made, (self._formulas(),))


def _made(formulas: Mapping[str, Any]) -> CustomMetric:
    return CustomMetric._of(formulas)


def measured(
    name: str,
    metric: str | CustomMetric,
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None,
    on_error: object,
    group: IntoColumn | None = None,
    positive: object = None,
    columns: tuple[str, ...] = (),
) -> pl.Expr:
    """The expression of a metric: one struct of what it reads (src/plugin/metrics.rs)."""
    import polars as pl
    import polars.selectors as cs

    roles: dict[str, Any] = {"target": target, "predicted": predicted, "weight": weight, "group": group}
    parts = [_fit.part(role, column) for role, column in roles.items() if column is not None]
    if columns:
        parts.append(_fit.part("columns", cs.by_name(*columns)))
    kwargs = {
        "function": f"metrics.{name}" if isinstance(metric, str) else name,
        "metric": as_json(f"metrics.{name}", metric),
        "positive": None if positive is None else json.dumps(_fit.plain("positive", positive)),
        "on_error": _fit.checked_on_error(on_error, ("raise", "null")),
    }
    return _plugin.scalar("metric", [pl.struct(parts)], kwargs).alias(name)


def as_json(function: str, metric: object) -> str:
    """A metric as the engine reads it, checked."""
    if not isinstance(metric, str | CustomMetric):
        msg = f"{function}: metric={metric!r} is neither a metric's name nor one that tg.metric makes"
        raise TypeError(msg)
    text = json.dumps(metric if isinstance(metric, str) else metric._formulas())
    if (problem := _taiga.metric_problem(text)) is not None:
        msg = f"{function}: {problem}"
        raise ValueError(msg)
    return text


def columns_of(metrics: object) -> list[str]:
    """The columns that metrics of one's own among these read, each once."""
    several = metrics if isinstance(metrics, list | tuple) else [metrics]
    return list(dict.fromkeys(c for one in several if isinstance(one, CustomMetric) for c in one._columns))


def _split(root: Symbol) -> tuple[str, list[str]]:
    """The formula of a metric's means, and what each is the mean of; of one without means, its own mean."""
    order, _ = _ordered(root)
    if not any(symbol._name == "mean()" for symbol in order):
        return "m0", [_text(root)]
    means: list[str] = []
    outer: dict[int, Symbol] = {}
    for symbol in order:
        if symbol._name == "mean()":
            inner = symbol._parts[0]
            if any(part._name == "mean()" for part in _ordered(inner)[0]):
                msg = f"metric: {symbol!r} is a mean of a mean, which is the same for all rows: take it out"
                raise ValueError(msg)
            text = _text(inner)
            if text not in means:
                means.append(text)
            outer[id(symbol)] = Symbol(f"m{means.index(text)}")
        else:
            parts = [outer[id(part)] for part in symbol._parts]
            outer[id(symbol)] = Symbol(symbol._name, *parts) if parts else symbol
    return _text(outer[id(root)]), means


def _split_text(text: str) -> tuple[str, list[str]]:
    """The same of a formula as text."""
    value, means, at = "", [], 0
    for found in re.finditer(r"\bmean\s*\(", text):
        if found.start() < at:
            msg = f"metric: {text!r} has a mean of a mean, which is the same for all rows: take it out"
            raise ValueError(msg)
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if depth:
            msg = f"metric: the bracket of a mean( is not closed in {text!r}"
            raise ValueError(msg)
        inner = text[found.end() : end - 1].strip()
        if inner not in means:
            means.append(inner)
        value += text[at : found.start()] + f"m{means.index(inner)}"
        at = end
    return (value + text[at:], means) if means else ("m0", [text])


def _traced(function: Callable[..., Any], named: Mapping[str, str]) -> Symbol:
    """What a function makes of symbols."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        msg = "metric: it is to be a function whose parameters can be seen, as lambda y, p: …"
        raise TypeError(msg) from None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) < 2 or any(p.kind not in plain for p in parameters):
        msg = (
            "metric: it is to be a function of the target, the prediction, and columns by their names, as "
            "lambda y, p: … or lambda y, p, exposure: …"
        )
        raise TypeError(msg)
    names = [p.name for p in parameters[2:]]
    if not set(named) <= set(names):
        msg = f"metric: columns={dict(named)!r} names parameters that the function has not, beside its first two"
        raise ValueError(msg)
    return _symbol(function(Symbol("y"), Symbol("p"), *[_column(named.get(name, name)) for name in names]))


def metric(
    function: Callable[..., Any] | str,
    *,
    name: str | None = None,
    larger_is_better: bool = False,
    columns: Mapping[str, str] | None = None,
) -> CustomMetric:
    """Make a metric of one's own of a function of a row's target and prediction.

    It serves as `metric=` of `tg.fit_gbdt` (alone or in a list), of `tg.score` and `tg.importance`, and, called with
    columns, as an expression. The function is called once, with symbols; no Python runs where it is measured. The model
    records it and shows it (`Model.params["metric"]`).

    Parameters
    ----------
    function
        A function of the target, the prediction and, by their names, further columns: `lambda y, p: (y - p) ** 2` is
        averaged over the rows, each weighed by its weight. `tg.mean` averages parts, of which anything can be made:
        `lambda y, p: tg.mean((y - p) ** 2).sqrt() / tg.mean(y)`. What symbols can do: see `Symbol`. Or the formula as
        text: `"sqrt(mean((y - p) ** 2)) / mean(y)"`. The prediction is what `predict` gives, a probability for two
        classes, whose target is 0 or 1; of models of several classes there is none.
    name
        What it is called; default the function's name, and `"metric"` for one without.
    larger_is_better
        Whether a larger value is a better one; default False.
    columns
        The names of columns that can't be names of parameters: `{"e": "exposure (years)"}` for the parameter `e`.

    Raises
    ------
    TypeError
        For a function that branches on symbols (`if`, `and`, `min()`: write `tg.when`), takes them for floats
        (`math.exp`) or calls what is not known of them, and one of fewer than two parameters.
    ValueError
        For a metric that does not depend on the prediction, reads rows outside of `tg.mean`, has more than 16 means, or
        a name of another metric.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") / 10, held=pl.col("x") % 4 == 0)
    >>> def share_close(y, p):
    ...     return abs(y - p) < 1
    >>> close = tg.metric(share_close, larger_is_better=True)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=30, eval="held", metric=["rmse", close])
    >>> model.history.columns
    ['round', 'rmse', 'share_close', 'best']
    >>> df.select(tg.score(model, "y", metric=close)).item() > 0.9
    True
    """
    if isinstance(function, str):
        value, means = _split_text(function)
    elif callable(function):
        value, means = _split(_traced(function, dict(columns or {})))
    else:
        msg = f"metric: {function!r} is neither a function nor a formula as text"  # type: ignore[unreachable]
        raise TypeError(msg)
    own = getattr(function, "__name__", "metric")
    called = name if name is not None else own if own.isidentifier() else "metric"
    return CustomMetric(value, means, name=called, larger_is_better=larger_is_better)
