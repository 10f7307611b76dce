"""A search among parameters, by cross-validation inside a query."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_taiga import _fit, _plugin
from polars_taiga._signature import shows
from polars_taiga.gbdt import GbdtParams
from polars_taiga.validation import FoldsCall, FoldsParams

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["search"]

Space: TypeAlias = "Mapping[str, Sequence[Any] | Any]"
"""The values that parameters may have in a search: lists, ranges `(low, high)` and `(low, high, "log")`, or
distributions as SciPy has them."""

_MOST_TRIALS = 100_000


@shows(FoldsParams)
def search(
    target: IntoColumn,
    *features: IntoColumns,
    space: Space,
    trials: int | None = None,
    halving: int | None = None,
    on_error: Literal["raise", "null"] = "raise",
    **params: Unpack[FoldsParams],
) -> pl.Expr:
    """Search among parameters of boosted trees by cross-validation: one list of structs, one for each trial.

    Under `halving` there is one for each rung that a trial has reached: 27 trials under `halving=3` give 40, of which
    those of the last `rung` had all `rounds`.

    Random search (Bergstra and Bengio, "Random search for hyper-parameter optimization", 2012), or by successive
    halving (Jamieson and Talwalkar 2016). All trials share one coding of the columns (for each `bins` and
    `border_method` among them) and one division into folds; fits run side by side where one can't keep all threads
    busy. The same call gives the same trials and the same values, whatever the threads and the device.

    Each struct has `trial` (UInt32), `params` (String: what was drawn, as JSON), `rung` and `rounds` (UInt32: how many
    the trial was given there), `mean` and `std` of the metric over the folds (Float64), and `folds` (its values, a
    list). Best first: those that got furthest, by their means. The expression's name is `search`.

    `df.taiga.search` gives it as a DataFrame with a column for each parameter, of JSON text where values are of several
    types (`16` and `{"b": 4}`). Where `space` has `rounds` that column is the parameter, and the rounds that a trial
    was given are `rung_rounds`.

    Parameters
    ----------
    target, features
        As in `fit_gbdt`.
    space
        By parameter of `fit_gbdt`, what it may be: a list of values (or a range, an array, a Series, a tuple of any
        others than two numbers); `(low, high)`, evenly drawn, whole numbers where both are; `(low, high, "log")`,
        evenly in its logarithm; or an object with `rvs(random_state=)`, as SciPy's distributions. None of them is given
        beside it.
    trials
        How many are drawn (by `seed`). Where all are lists no combination is drawn twice; of fewer combinations, and
        without `trials`, each is tried once.
    halving
        Of so many trials one goes on to so many times the rounds, until one has all; default: all have all. 3, say: 27
        trials begin with a 27th of `rounds`, 9 go on with a 9th. Where a rung does not divide evenly one more goes on:
        of 10 trials 4, then 2. The last rung's trials, one or several, are fitted with all.
    on_error
        What becomes of the rows of a query that can't be fitted or measured, as in `cross_validate`.
    params
        Those of `fit_folds`, and `fit_gbdt`'s for what is the same in all trials. `metric` is one, as in `score`,
        default that of the loss; it knows whether larger or smaller is better. Say `rounds`: without, each fit looks
        for its own, which takes longer.

    Raises
    ------
    TypeError, ValueError
        As in `fit_folds`, saying which trial; for a space that is none.
    polars.exceptions.ComputeError
        As in `fit_folds` and `score`, saying which trial.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 10 * 2.0)
    >>> space = {"depth": [1, 6], "learning_rate": (0.01, 0.5, "log")}
    >>> found = df.taiga.search("y", "x", space=space, trials=6, rounds=20, folds=3)
    >>> found.columns
    ['trial', 'depth', 'learning_rate', 'rung', 'rounds', 'mean', 'std', 'folds']
    >>> found["mean"].is_sorted()
    True
    """
    how: dict[str, Any] = {"space": space, "trials": trials, "halving": halving, "on_error": on_error}
    fit, more = search_call(target, features, params, **how)
    return _plugin.scalar("search", fit.inputs(), {"fit": fit.kwargs, **more}).alias("search")


def search_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    params: Mapping[str, Any],
    *,
    space: Space,
    trials: int | None,
    halving: int | None,
    on_error: Any = "raise",
) -> tuple[_fit.Call, dict[str, Any]]:
    """What `search` reads, and what the plugin is told besides; what is wrong with it is raised."""
    own = FoldsCall("search", target, features, params, on_error=on_error)
    problems = own.call.problems
    metric = params.get("metric")
    with problems.collect():
        if isinstance(metric, list | tuple):
            msg = f"parameter `metric`: a search goes by one, not {len(metric)}"
            raise TypeError(msg)
    drawn: list[dict[str, Any]] = []
    with problems.collect():
        drawn = draw(space, trials, own.division.seed)
        for name in space:
            if params.get(name) is not None:
                msg = f"parameter `{name}`: it is among the parameters of `space`, and given besides: say it once"
                raise ValueError(msg)
    texts = []
    for number, trial in enumerate(drawn):
        # Of many trials with the same fault the first says it.
        if not problems.found:
            texts.append(own.call.json({**own.named, **trial}))
            problems.found = [(kind, f"trial {number}: {text}") for kind, text in problems.found]
    with problems.collect():
        factor = _fit.whole(halving)
        if halving is not None and (factor is None or factor < 2):
            msg = f"parameter `halving`: {halving!r} is no number from 2 on: of so many trials one goes on"
            raise ValueError(msg)
        halving = factor
    measured = own.measured(metric)
    fit, more = own.fit("{}")
    told = [json.dumps({name: _fit.plain(name, value) for name, value in trial.items()}) for trial in drawn]
    return fit, {**more, "measured": measured, "trials": texts, "told": told, "halving": halving}


def draw(space: Space, trials: int | None, seed: int) -> list[dict[str, Any]]:
    """The parameters of each trial."""
    if not isinstance(space, Mapping) or not space:
        msg = f"parameter `space`: {space!r} does not say, by parameter, what it may be"
        raise TypeError(msg)
    for name in space:
        if name not in GbdtParams.__annotations__ or name in ("loss", "metric", "n_threads", "device"):
            msg = f"parameter `space`: `{name}` is no parameter that a search can vary"
            raise ValueError(msg)
    spread = {name: _spread(name, values) for name, values in space.items()}
    lists = {name: values for name, values in spread.items() if isinstance(values, list)}
    count = math.prod(len(values) for values in lists.values()) if len(lists) == len(spread) else None
    if trials is None:
        if count is None:
            name = next(name for name in space if name not in lists)
            msg = f"parameter `trials`: say how many, since `{name}` is no list of values"
            raise ValueError(msg)
        if not 1 <= count <= _MOST_TRIALS:
            text = f"there are {count} combinations, and not between 1 and {_MOST_TRIALS:,}"
            msg = f"parameter `space`: {text}: say `trials`"
            raise ValueError(msg)
        return _combinations(lists)
    number = _fit.whole(trials)
    if number is None or not 1 <= number <= _MOST_TRIALS:
        msg = f"parameter `trials`: {trials!r} is no number between 1 and {_MOST_TRIALS:,}"
        raise ValueError(msg)
    # Each parameter has a stream of its own, so that one more changes no other's values.
    sources = {name: random.Random(f"{seed} {name}") for name in spread}
    if count is None or count == 0:
        draws = {name: _draw_of(name, values, sources[name]) for name, values in spread.items()}
        return [{name: one() for name, one in draws.items()} for _ in range(number)]
    if number > count:
        return _combinations(lists)
    places: dict[tuple[int, ...], None] = {}
    while len(places) < number:
        places[tuple(sources[name].choice(range(len(values))) for name, values in lists.items())] = None
    return [{name: values[at] for (name, values), at in zip(lists.items(), own, strict=True)} for own in places]


def _combinations(lists: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Each combination of values once."""
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def _spread(name: str, values: Any) -> Any:
    """What a parameter may be: a list, whatever its values came in, or what else they are drawn of."""
    if isinstance(values, tuple):
        own = tuple(_number(value) for value in values)
        values = own if _is_range(own) else list(values)
    elif isinstance(values, range | pl.Series):
        values = list(values)
    elif hasattr(values, "tolist") and not hasattr(values, "rvs"):
        values = values.tolist()
    if name == "categorical" and isinstance(values, list):
        # As in `fit_gbdt`, one name is a list of it.
        values = [[value] if isinstance(value, str) else value for value in values]
    elif name == "ctr" and isinstance(values, list):
        for value in values:
            if isinstance(value, str):
                msg = f"parameter `space`: a value of `ctr` is a list of statistics, [{value!r}]"
                raise TypeError(msg)
    return values


def _number(value: Any) -> Any:
    """A number of NumPy as Python's, anything else as it is."""
    return (
        value.item() if hasattr(value, "dtype") and hasattr(value, "item") and not hasattr(value, "__len__") else value
    )


def _is_range(values: tuple[Any, ...]) -> bool:
    """Whether a tuple is `(low, high)` or `(low, high, "log")`, and no list of values."""
    is_pair = len(values) == 2 or (len(values) == 3 and isinstance(values[2], str) and values[2] == "log")
    return is_pair and all(isinstance(x, int | float) and not isinstance(x, bool) for x in values[:2])


def _draw_of(name: str, values: Any, source: random.Random) -> Callable[[], Any]:
    if hasattr(values, "rvs"):
        return lambda: _fit.plain(name, values.rvs(random_state=source.getrandbits(32)))
    if isinstance(values, list) and values:
        return lambda: source.choice(values)
    if not isinstance(values, tuple) or not values[0] <= values[1]:
        others = 'a list, (low, high), (low, high, "log") or a distribution'
        msg = f"parameter `space`: `{name}` is {values!r}, and not {others}"
        raise ValueError(msg)
    low, high = values[:2]
    whole = isinstance(low, int) and isinstance(high, int)
    if values[2:]:
        if low <= 0:
            msg = f"parameter `space`: `{name}` begins at {low}, which has no logarithm"
            raise ValueError(msg)

        def logarithmic() -> float:
            return math.exp(source.uniform(math.log(low), math.log(high)))

        return (lambda: min(max(round(logarithmic()), low), high)) if whole else logarithmic
    return (lambda: source.randint(low, high)) if whole else (lambda: source.uniform(low, high))


def as_frame(found: pl.DataFrame) -> pl.DataFrame:
    """The trials of `search` with a column for each parameter that was drawn."""
    drawn = [json.loads(text) for text in found["params"]]
    columns = {name: _column(name, [trial[name] for trial in drawn]) for name in (drawn or [{}])[0]}
    given = pl.col("rounds").alias("rung_rounds") if "rounds" in columns else pl.col("rounds")
    return found.select("trial", *columns.values(), "rung", given, pl.exclude("trial", "params", "rung", "rounds"))


def _column(name: str, values: list[Any]) -> pl.Series:
    """The values of a parameter, or their JSON where no column has all of them as they are."""
    kinds = {float if isinstance(value, int) and not isinstance(value, bool) else type(value) for value in values}
    if len(kinds - {type(None)}) < 2:
        dtype = pl.Float64 if any(isinstance(value, float) for value in values) else None
        try:
            column = pl.Series(name, values, dtype=dtype, strict=False)
            if column.to_list() == values:
                return column
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            pass
    return pl.Series(name, [None if value is None else json.dumps(value) for value in values], dtype=pl.String)
