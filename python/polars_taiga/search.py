"""A search among parameters, by cross-validation inside a query."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

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
    **params: Unpack[FoldsParams],
) -> pl.Expr:
    """Search among parameters of boosted trees by cross-validation: one list of structs, a struct for each trial.

    Random search (Bergstra and Bengio, "Random search for hyper-parameter optimization", 2012), or by successive
    halving (Jamieson and Talwalkar 2016). All trials share one coding of the columns (for each `bins` and
    `border_method` among them) and one division into folds; fits run side by side where one can't keep all threads
    busy. The same call gives the same trials and the same values, whatever the threads and the device.

    Each struct has `trial` (UInt32), `params` (String: what was drawn, as JSON), `rung` and `rounds` (UInt32), `mean`
    and `std` of the metric over the folds (Float64), and `folds` (its values, a list). Best first: those that got
    furthest, by their means. `df.taiga.search` gives it as a DataFrame with a column for each parameter. The
    expression's name is `search`.

    Parameters
    ----------
    target, features
        As in `fit_gbdt`.
    space
        By parameter of `fit_gbdt`, what it may be: a list of values; `(low, high)`, evenly drawn, whole numbers where
        both are; `(low, high, "log")`, evenly in its logarithm; or an object with `rvs(random_state=)`, as SciPy's
        distributions.
    trials
        How many are drawn (by `seed`). Without it, where all are lists, each combination once.
    halving
        Of so many trials one goes on to so many times the rounds, until one has all; default: all have all. 3, say: 27
        trials begin with a 27th of `rounds`, 9 go on with a 9th. The last rung's trials are fitted with all.
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
    fit, more = search_call(target, features, params, space=space, trials=trials, halving=halving)
    return _plugin.scalar("search", fit.inputs(), {"fit": fit.kwargs, **more}).alias("search")


def search_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    params: Mapping[str, Any],
    *,
    space: Space,
    trials: int | None,
    halving: int | None,
) -> tuple[_fit.Call, dict[str, Any]]:
    """What `search` reads, and what the plugin is told besides; what is wrong with it is raised."""
    own = FoldsCall("search", target, features, params)
    problems = own.call.problems
    metric = params.get("metric")
    with problems.collect():
        if isinstance(metric, list | tuple):
            msg = f"parameter `metric`: a search goes by one, not {len(metric)}"
            raise TypeError(msg)
    drawn: list[dict[str, Any]] = []
    with problems.collect():
        drawn = draw(space, trials, own.division.seed)
    texts = []
    for number, trial in enumerate(drawn):
        # Of many trials with the same fault the first says it.
        if not problems.found:
            texts.append(own.call.json({**own.named, **trial}))
            problems.found = [(kind, f"trial {number}: {text}") for kind, text in problems.found]
    with problems.collect():
        if halving is not None and (isinstance(halving, bool) or not isinstance(halving, int) or halving < 2):
            msg = f"parameter `halving`: {halving!r} is no number from 2 on: of so many trials one goes on"
            raise ValueError(msg)
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
    if trials is None:
        lists = {name: values for name, values in space.items() if isinstance(values, list)}
        if len(lists) < len(space):
            name = next(name for name in space if name not in lists)
            msg = f"parameter `trials`: say how many, since `{name}` is no list of values"
            raise ValueError(msg)
        count = math.prod(len(values) for values in lists.values())
        if not 1 <= count <= _MOST_TRIALS:
            text = f"there are {count} combinations, and not between 1 and {_MOST_TRIALS:,}"
            msg = f"parameter `space`: {text}: say `trials`"
            raise ValueError(msg)
        return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    if isinstance(trials, bool) or not isinstance(trials, int) or not 1 <= trials <= _MOST_TRIALS:
        msg = f"parameter `trials`: {trials!r} is no number between 1 and {_MOST_TRIALS:,}"
        raise ValueError(msg)
    # Each parameter has a stream of its own, so that one more changes no other's values.
    draws = {name: _draws(name, values, random.Random(f"{seed} {name}")) for name, values in space.items()}
    return [{name: next(values) for name, values in draws.items()} for _ in range(trials)]


def _draws(name: str, values: Any, source: random.Random) -> Iterator[Any]:
    """Values of one parameter."""
    one = _draw_of(name, values, source)
    while True:
        yield one()


def _draw_of(name: str, values: Any, source: random.Random) -> Callable[[], Any]:
    if hasattr(values, "rvs"):
        return lambda: _fit.plain(name, values.rvs(random_state=source.getrandbits(32)))
    if isinstance(values, list) and values:
        return lambda: source.choice(values)
    numbers = values[:2] if isinstance(values, tuple) else ()
    is_range = len(numbers) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers)
    if not is_range or not numbers[0] <= numbers[1] or values[2:] not in ((), ("log",)):
        others = 'a list, (low, high), (low, high, "log") or a distribution'
        msg = f"parameter `space`: `{name}` is {values!r}, and not {others}"
        raise ValueError(msg)
    low, high = numbers
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
    columns = {name: pl.Series(name, [trial[name] for trial in drawn], strict=False) for name in (drawn or [{}])[0]}
    return found.select("trial", *columns.values(), pl.exclude("trial", "params"))
