"""Losses of one's own: a function of symbols, traced into a formula that the engine differentiates."""

from __future__ import annotations

import inspect
import json
import math
import numbers
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import polars as pl

from polars_taiga import _taiga

__all__ = ["CustomLoss", "Symbol", "loss", "when"]

LossLink: TypeAlias = Literal["identity", "log", "logit"]
"""How a raw score becomes a prediction."""

# How tightly operators bind, as in Python.
_COMPARISON, _OR, _AND, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(8)

_LEVELS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARISON),
    "|": _OR,
    "&": _AND,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "**": _POWER,
}

# What NumPy's functions are here, called or written between their operands.
_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "true_divide": "/",
    "power": "**",
    "float_power": "**",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "logical_and": "&",
    "bitwise_and": "&",
    "logical_or": "|",
    "bitwise_or": "|",
}
_UFUNC_CALLS = {
    "exp": "exp",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "sqrt": "sqrt",
    "abs": "abs",
    "absolute": "abs",
    "fabs": "abs",
    "sign": "sign",
    "tanh": "tanh",
    "minimum": "min",
    "maximum": "max",
    "fmin": "min",
    "fmax": "max",
    "expit": "sigmoid",
}

# A formula up to this length stands in one piece, however often parts of it occur.
_SHORT = 400

_UNDECIDED = (
    "is a symbol of a loss that is being traced, neither true nor false: in the place of `a if y > f else b` write "
    "tg.when(y > f).then(a).otherwise(b), and & | ~ in the place of `and`, `or`, `not` and of chains like a < b < c; "
    "a.minimum(b) and a.maximum(b) in the place of min(a, b) and max(a, b)"
)


class Symbol:
    """A number that is not known yet: what the function of `tg.loss` is called with.

    It takes `+ - * / **` (a power needs a number as its exponent, or as its base), `abs()`, the comparisons, `& | ~` of
    these, the methods below, and NumPy's functions of the same names, with `np.minimum`, `np.maximum`, `np.where` and
    `np.clip`.

    Examples
    --------
    >>> import polars_taiga as tg
    >>> tg.loss(lambda y, f: ((y - f).abs() + 1).log() ** 2 + 0.1 * (y - f) ** 2)
    loss(lambda y, f: log(abs(y - f) + 1) ** 2 + 0.1 * (y - f) ** 2)
    """

    __slots__ = ("_name", "_parts")

    # Of two unlike operands this one's operators are asked.
    __array_priority__ = 1000

    def __init__(self, name: str, *parts: Symbol) -> None:
        """Of an operator or function and what it is applied to; without parts a leaf's text."""
        self._name, self._parts = name, parts

    def exp(self) -> Symbol:
        """Raise e to the power of it."""
        return Symbol("exp()", self)

    def log(self) -> Symbol:
        """Take its natural logarithm."""
        return Symbol("log()", self)

    def log1p(self) -> Symbol:
        """Take the natural logarithm of 1 plus it, to the last digits where it is small."""
        return Symbol("log1p()", self)

    def expm1(self) -> Symbol:
        """Raise e to the power of it, less 1, to the last digits where it is small."""
        return Symbol("expm1()", self)

    def sqrt(self) -> Symbol:
        """Take its square root."""
        return Symbol("sqrt()", self)

    def abs(self) -> Symbol:
        """Take its size; the derivative at 0 is 0."""
        return Symbol("abs()", self)

    def sign(self) -> Symbol:
        """Make it -1, 0 or 1; the derivative is 0."""
        return Symbol("sign()", self)

    def sigmoid(self) -> Symbol:
        """Compute `1 / (1 + exp(-x))`."""
        return Symbol("sigmoid()", self)

    def softplus(self) -> Symbol:
        """Compute `log(1 + exp(x))` without overflow."""
        return Symbol("softplus()", self)

    def tanh(self) -> Symbol:
        """Take its hyperbolic tangent."""
        return Symbol("tanh()", self)

    def minimum(self, other: Symbol | float) -> Symbol:
        """Take the smaller of it and another."""
        return Symbol("min()", self, _symbol(other))

    def maximum(self, other: Symbol | float) -> Symbol:
        """Take the larger of it and another."""
        return Symbol("max()", self, _symbol(other))

    def clip(self, lower: Symbol | float | None = None, upper: Symbol | float | None = None) -> Symbol:
        """Keep it within bounds."""
        above = self if lower is None else self.maximum(lower)
        return above if upper is None else above.minimum(upper)

    def __add__(self, other: object) -> Symbol:
        return _between("+", self, other)

    def __radd__(self, other: object) -> Symbol:
        return _between("+", other, self)

    def __sub__(self, other: object) -> Symbol:
        return _between("-", self, other)

    def __rsub__(self, other: object) -> Symbol:
        return _between("-", other, self)

    def __mul__(self, other: object) -> Symbol:
        return _between("*", self, other)

    def __rmul__(self, other: object) -> Symbol:
        return _between("*", other, self)

    def __truediv__(self, other: object) -> Symbol:
        return _between("/", self, other)

    def __rtruediv__(self, other: object) -> Symbol:
        return _between("/", other, self)

    def __pow__(self, other: object) -> Symbol:
        return _between("**", self, other)

    def __rpow__(self, other: object) -> Symbol:
        return _between("**", other, self)

    def __lt__(self, other: object) -> Symbol:
        return _between("<", self, other)

    def __le__(self, other: object) -> Symbol:
        return _between("<=", self, other)

    def __gt__(self, other: object) -> Symbol:
        return _between(">", self, other)

    def __ge__(self, other: object) -> Symbol:
        return _between(">=", self, other)

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return _between("==", self, other)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return _between("!=", self, other)

    def __and__(self, other: object) -> Symbol:
        return _between("&", self, other)

    def __rand__(self, other: object) -> Symbol:
        return _between("&", other, self)

    def __or__(self, other: object) -> Symbol:
        return _between("|", self, other)

    def __ror__(self, other: object) -> Symbol:
        return _between("|", other, self)

    def __invert__(self) -> Symbol:
        return Symbol("~", self)

    def __neg__(self) -> Symbol:
        return Symbol("negative", self)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return self.abs()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """The formula so far."""
        return _text(self)

    def __bool__(self) -> bool:
        msg = f"{self!r} {_UNDECIDED}"
        raise TypeError(msg)

    def _is_no_number(self) -> NoReturn:
        msg = (
            f"{self!r} is a symbol of a loss that is being traced, and no number yet: take its methods, as x.exp(), or "
            "NumPy's functions, as np.exp(x), in the place of those of `math` and of float() and int()"
        )
        raise TypeError(msg)

    def __float__(self) -> float:
        self._is_no_number()

    def __int__(self) -> int:
        self._is_no_number()

    def __index__(self) -> int:
        self._is_no_number()

    def __len__(self) -> int:
        self._is_no_list()

    def __iter__(self) -> Iterator[Symbol]:
        self._is_no_list()

    def __getitem__(self, place: object) -> Symbol:
        self._is_no_list()

    def _is_no_list(self) -> NoReturn:
        msg = f"{self!r} stands for one row's number: a loss is a function of a single row, without sums or places"
        raise TypeError(msg)

    def __getattr__(self, name: str) -> NoReturn:
        """There is no such method."""
        if name.startswith("__"):
            raise AttributeError(name)
        known = [n for n in dir(Symbol) if not n.startswith("_")]
        msg = f"a symbol of a loss has no `{name}`; it has {', '.join(known)}, and operators"
        raise AttributeError(msg)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Symbol:
        """What NumPy's functions make of it."""
        name = ufunc.__name__
        if method == "__call__" and not kwargs:
            if name in _UFUNCS:
                return _between(_UFUNCS[name], *inputs)
            if name in _UFUNC_CALLS:
                return Symbol(f"{_UFUNC_CALLS[name]}()", *map(_symbol, inputs))
            if name in ("negative", "logical_not", "invert", "square", "reciprocal", "clip"):
                x = _symbol(inputs[0])
                if name == "clip":
                    return x.clip(*inputs[1:])
                if name in ("negative", "square"):
                    return -x if name == "negative" else x**2
                return 1 / x if name == "reciprocal" else ~x
        raise _no_such_function(f"np.{name}")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Symbol:
        """What NumPy's other functions make of it."""
        if func.__name__ == "where" and len(args) == 3 and not kwargs:
            return when(args[0]).then(args[1]).otherwise(args[2])
        if func.__name__ == "clip":
            low, high = kwargs.get("a_min", kwargs.get("min")), kwargs.get("a_max", kwargs.get("max"))
            given = [*args[1:], *([low] if len(args) < 2 else []), *([high] if len(args) < 3 else [])]
            return _symbol(args[0]).clip(*given)
        raise _no_such_function(f"np.{func.__name__}")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        self._is_no_number()

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled."""
        return (Symbol, (self._name, *self._parts))


def _no_such_function(name: str) -> TypeError:
    """The error of a function that symbols do not know."""
    functions = ", ".join(sorted({f"np.{n}" for n in _UFUNC_CALLS if n != "expit"} | {"np.where", "np.clip"}))
    return TypeError(f"{name} can't be part of a loss; of NumPy's functions these can: {functions}")


def _symbol(value: object) -> Symbol:
    """A symbol, or a number as one."""
    if isinstance(value, Symbol):
        return value
    if isinstance(value, bool):
        return Symbol(repr(float(value)))
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, numbers.Real):
        x = float(value)
        if not math.isfinite(x):
            msg = f"{x} can't be part of a loss: its numbers are finite"
            raise ValueError(msg)
        text = repr(int(x)) if x.is_integer() and abs(x) < 1e15 else repr(x)
        return (
            Symbol(text) if x >= 0 and not text.startswith("-") else Symbol("negative", Symbol(text.removeprefix("-")))
        )
    if isinstance(value, pl.Expr):
        msg = (
            "a Polars expression can't be part of a loss: it is a function of a row's numbers; a column comes in as a "
            "further parameter of the function, by its name: tg.loss(lambda y, f, exposure: …)"
        )
        raise TypeError(msg)
    if isinstance(value, When | Then):
        msg = "tg.when(condition).then(a) has no value yet: add .otherwise(b)"
        raise TypeError(msg)
    msg = f"{value!r} of type {type(value).__name__} can't be part of a loss: it is made of symbols and numbers"
    raise TypeError(msg)


def _between(operator: str, a: object, b: object) -> Symbol:
    return Symbol(operator, _symbol(a), _symbol(b))


class When:
    """What `tg.when` gives: it waits for `then`."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[Symbol, ...]) -> None:
        """Of conditions and values, the last of them a condition."""
        self._branches = branches

    def then(self, value: Symbol | float) -> Then:
        """Say the value where the condition holds."""
        return Then((*self._branches, _symbol(value)))


class Then:
    """What `then` gives: it waits for `otherwise`, or for a further condition."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[Symbol, ...]) -> None:
        """Of conditions and values."""
        self._branches = branches

    def when(self, condition: Symbol) -> When:
        """Say a further condition, which is asked where none before it holds."""
        return When((*self._branches, _symbol(condition)))

    def otherwise(self, value: Symbol | float) -> Symbol:
        """Say the value where no condition holds."""
        return Symbol("when()", *self._branches, _symbol(value))


def when(condition: Symbol) -> When:
    """Choose by a condition, in the function of a loss: `tg.when(a > b).then(x).otherwise(z)`.

    It is to symbols what `pl.when` is to columns. The derivative is that of the branch taken; both are computed.

    Parameters
    ----------
    condition
        A comparison of symbols, or several joined by `&`, `|` and `~`.

    Raises
    ------
    TypeError
        For what is no symbol.

    Examples
    --------
    >>> import polars_taiga as tg
    >>> tg.loss(lambda y, f: tg.when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2))
    loss(lambda y, f: when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2))
    """
    given: object = condition
    if isinstance(given, pl.Expr):
        msg = "tg.when is for the symbols of a loss; of columns take pl.when"
        raise TypeError(msg)
    return When((_symbol(given),))


def _column(name: str) -> Symbol:
    """A column's symbol."""
    if "`" in name:
        msg = f"a column that a loss reads can't have a backtick in its name, as {name!r} has"
        raise ValueError(msg)
    return Symbol(f"`{name}`")


def _text(root: Symbol) -> str:
    """A formula as the engine reads it (src/core/symbolic/parse.rs). Parts that occur more than once get a name where
    it would become long otherwise.
    """
    order, uses = _ordered(root)
    sizes: dict[int, int] = {}
    for symbol in order:
        sizes[id(symbol)] = min(10**9, len(symbol._name) + 2 + sum(sizes[id(part)] for part in symbol._parts))
    named = sizes[id(root)] > _SHORT
    texts: dict[int, tuple[str, int]] = {}
    lines: list[str] = []
    for symbol in order:
        text = _one(symbol, [texts[id(part)] for part in symbol._parts])
        if named and symbol is not root and symbol._parts and uses[id(symbol)] > 1:
            name = f"t{len(lines) + 1}"
            lines.append(f"{name} = {text[0]}; ")
            text = (name, _ATOM)
        texts[id(symbol)] = text
    return "".join(lines) + texts[id(root)][0]


def _ordered(root: Symbol) -> tuple[list[Symbol], dict[int, int]]:
    """All parts of a symbol, each once and behind its own parts, and how often each is read."""
    order: list[Symbol] = []
    uses: dict[int, int] = {id(root): 0}
    open_: list[tuple[Symbol, bool]] = [(root, False)]
    seen: set[int] = set()
    while open_:
        symbol, ready = open_.pop()
        if ready:
            order.append(symbol)
        elif id(symbol) not in seen:
            seen.add(id(symbol))
            open_.append((symbol, True))
            for part in reversed(symbol._parts):
                uses[id(part)] = uses.get(id(part), 0) + 1
                open_.append((part, False))
        if len(order) > 100_000:
            msg = "the function makes more than 100,000 steps of one row's loss"
            raise ValueError(msg)
    return order, uses


def _one(symbol: Symbol, parts: list[tuple[str, int]]) -> tuple[str, int]:
    """A symbol's text, of its parts' texts and how tightly they bind; and how tightly it does."""
    name = symbol._name

    def within(part: tuple[str, int], level: int) -> str:
        return part[0] if part[1] >= level else f"({part[0]})"

    if not parts:
        return name, _ATOM
    if name == "when()":
        pairs = [f"when({parts[i][0]}).then({parts[i + 1][0]})" for i in range(0, len(parts) - 1, 2)]
        return f"{'.'.join(pairs)}.otherwise({parts[-1][0]})", _ATOM
    if name.endswith("()"):
        return f"{name[:-2]}({', '.join(part[0] for part in parts)})", _ATOM
    if name in ("negative", "~"):
        return f"{'-' if name == 'negative' else '~'}{within(parts[0], _SIGN if name == 'negative' else _ATOM)}", _SIGN
    level = _LEVELS[name]
    if name == "**":
        return f"{within(parts[0], _ATOM)} ** {within(parts[1], _SIGN)}", level
    left = within(parts[0], level + (level == _COMPARISON))
    return f"{left} {name} {within(parts[1], level + 1)}", level


_FunctionOrText: TypeAlias = "Callable[..., Any] | str"


class CustomLoss:
    """A loss of one's own: what `tg.loss` makes, for `loss=` of `tg.fit_gbdt`.

    It is data, formulas as text: it can be pickled, copied and compared, and a model keeps it (`Model.params["loss"]`).

    Examples
    --------
    >>> import polars_taiga as tg
    >>> poisson = tg.loss(lambda y, f: f.exp() - y * f, link="log")
    >>> poisson.value, poisson.hessian, poisson.link, poisson.columns
    ('exp(f) - y * f', None, 'log', [])
    >>> poisson == tg.loss("exp(f) - y * f", link="log")
    True
    """

    __slots__ = ("_columns", "_hessian", "_link", "_value")

    def __init__(self, value: str, *, hessian: str | None = None, link: LossLink = "identity") -> None:
        """Of its formulas; see `tg.loss`."""
        self._value, self._hessian, self._link = value, hessian, link
        self._columns = _taiga.loss_columns(self._json())

    @classmethod
    def _of(cls, formulas: Mapping[str, Any]) -> CustomLoss:
        """The loss that a model keeps."""
        return cls(formulas["value"], hessian=formulas.get("hessian"), link=formulas.get("link", "identity"))

    def _formulas(self) -> dict[str, str]:
        """What the engine reads."""
        given = {} if self._hessian is None else {"hessian": self._hessian}
        return {"value": self._value, **given, "link": self._link}

    def _json(self) -> str:
        return json.dumps(self._formulas())

    @property
    def value(self) -> str:
        """The formula of a row's loss, of its target `y`, its raw score `f`, and columns in backticks."""
        return self._value

    @property
    def hessian(self) -> str | None:
        """The formula that stands in the place of the second derivative; none unless told."""
        return self._hessian

    @property
    def link(self) -> LossLink:
        """How the raw score becomes a prediction."""
        return self._link

    @property
    def columns(self) -> list[str]:
        """The columns that it reads beside the target."""
        return list(self._columns)

    def derivatives(self, y: Sequence[float], f: Sequence[float], **columns: Sequence[float]) -> pl.DataFrame:
        """Compute the loss and both derivatives of rows, as they are before training makes 32-bit numbers of them.

        Parameters
        ----------
        y, f
            Targets and raw scores.
        columns
            The further columns that it reads, by name.

        Returns
        -------
        pl.DataFrame
            `value`, `gradient` and `hessian`, Float64. Where a hessian is not positive, training takes 1e-16 for it.

        Raises
        ------
        ValueError
            Where they are not of one length, or a column is missing.

        Examples
        --------
        >>> import polars_taiga as tg
        >>> tg.loss(lambda y, f: (y - f) ** 2).derivatives([3.0, 0.5], [1.0, 1.0]).rows()
        [(4.0, -4.0, 2.0), (0.25, 1.0, 2.0)]
        """
        if set(columns) != set(self._columns):
            msg = f"derivatives: the loss reads the columns {self._columns}, and is given {sorted(columns)}"
            raise ValueError(msg)
        inputs = [list(map(float, values)) for values in (y, f, *(columns[name] for name in self._columns))]
        names = ("value", "gradient", "hessian")
        return pl.DataFrame(dict(zip(names, _taiga.loss_derivatives(self._json(), inputs), strict=True)))

    def __repr__(self) -> str:
        """As it could have been made, of functions that are called by their names."""

        def readable(text: str) -> str:
            return re.sub(
                r"`([A-Za-z_]\w*)`", lambda m: m[1] if m[1] in self._columns and m[1] not in "yf" else m[0], text
            )

        names = "".join(
            f", {name}" if name.isidentifier() and name not in "yf" else f", `{name}`" for name in self._columns
        )
        hessian = "" if self._hessian is None else f", hessian=lambda y, f{names}: {readable(self._hessian)}"
        link = "" if self._link == "identity" else f', link="{self._link}"'
        return f"loss(lambda y, f{names}: {readable(self._value)}{hessian}{link})"

    def __eq__(self, other: object) -> bool:
        """Whether the formulas are the same, as text."""
        return isinstance(other, CustomLoss) and self._formulas() == other._formulas()

    def __hash__(self) -> int:
        """By the formulas."""
        return hash((self._value, self._hessian, self._link))

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled and copied."""
        return (_made, (self._value, self._hessian, self._link))


def _made(value: str, hessian: str | None, link: LossLink) -> CustomLoss:
    return CustomLoss(value, hessian=hessian, link=link)


def _traced(function: Callable[..., Any], what: str, named: Mapping[str, str]) -> str:
    """The formula of a function of symbols."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        msg = f"loss: {what} is to be a function whose parameters can be seen, as lambda y, f: …"
        raise TypeError(msg) from None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) < 2 or any(p.kind not in plain for p in parameters):
        msg = (
            f"loss: {what} is to be a function of the target, the raw score, and columns by their names, as "
            "lambda y, f: … or lambda y, f, exposure: …"
        )
        raise TypeError(msg)
    columns = [_column(named.get(p.name, p.name)) for p in parameters[2:]]
    return _text(_symbol(function(Symbol("y"), Symbol("f"), *columns)))


def loss(
    function: _FunctionOrText,
    *,
    link: LossLink = "identity",
    hessian: _FunctionOrText | float | None = None,
    columns: Mapping[str, str] | None = None,
) -> CustomLoss:
    """Make a loss of one's own, for `loss=` of `tg.fit_gbdt`, of a function of a row's target and raw score.

    The function is called once, with symbols: what it computes is recorded, differentiated twice, checked, and run by
    the engine on the CPU or a GPU, with the same bits and about as fast as a built-in loss. Python plays no part in the
    fit. The model records the loss; its mean is the default metric of the fit and of `tg.score`.

    Parameters
    ----------
    function
        A function of the target, the raw score and, by their names, further columns, which gives the row's loss:
        `lambda y, f: (y - f) ** 2`, `lambda y, f, exposure: exposure * f.exp() - y * f`. What symbols can do: see
        `Symbol`. Or the formula as text, of `y`, `f` and columns in backticks: ``"exp(f) - y * f"``.
    link
        What a prediction is, of the raw score `f` that the trees add up to: `"identity"` (default) `f` itself, `"log"`
        `exp(f)`, `"logit"` `1 / (1 + exp(-f))`.
    hessian
        What steps are divided by in the place of the second derivative: a function as above, or a number. Needed where
        the second derivative is 0, as that of an absolute error (`hessian=1`), and useful where another one makes
        better steps. Default: the second derivative, and 1e-16 where it is smaller.
    columns
        The names of columns that can't be names of parameters: `{"e": "exposure (years)"}` for the parameter `e`.

    Raises
    ------
    TypeError
        For a function that branches on symbols (`if`, `and`, `min()`: write `tg.when`), takes them for floats
        (`math.exp`) or calls what is not known of them, and one of fewer than two parameters.
    ValueError
        For a loss that is a constant, does not depend on the raw score, or has no curvature anywhere.

    Notes
    -----
    Trees take steps of Newton's method, gradient over hessian (Chen and Guestrin, "XGBoost", 2016, section 2.2); the
    start value is the minimiser for all rows together. Derivatives are found on a graph of the formula in which equal
    parts are one (Griewank and Walther, "Evaluating Derivatives", 2008), and such as would overflow are rewritten:
    `log(1 + exp(f))` and `log(1 / (1 + exp(-f)))` need no care. A squared error with the factor 0.5 gives the model
    of `loss="rmse"`, to the bit. Targets are finite, within ±1e30.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") / 10)
    >>> late = tg.loss(lambda y, f: tg.when(y > f).then(9 * (y - f) ** 2).otherwise((y - f) ** 2))
    >>> model = df.taiga.fit_gbdt("y", "x", loss=late, rounds=20)
    >>> model.params["loss"] == late
    True
    >>> tg.loss(lambda y, f: abs(y - f))
    Traceback (most recent call last):
    ...
    ValueError: parameter `loss`: of the loss of your own: it has no curvature: ...
    """
    if link not in get_args(LossLink):
        msg = f"loss: link={link!r} is not one of {', '.join(map(repr, get_args(LossLink)))}"
        raise ValueError(msg)
    named = dict(columns or {})
    if callable(function) and not set(named) <= set(list(inspect.signature(function).parameters)[2:]):
        msg = f"loss: columns={named!r} names parameters that the function has not, beside its first two"
        raise ValueError(msg)

    def formula(what: str, given: object) -> str:
        if isinstance(given, str):
            return given
        return _traced(given, what, named) if callable(given) else _text(_symbol(given))

    given: object = function
    if not isinstance(given, str) and not callable(given):
        msg = f"loss: {given!r} is neither a function nor a formula as text"
        raise TypeError(msg)
    value = formula("the loss", function)
    return CustomLoss(value, hessian=None if hessian is None else formula("`hessian`", hessian), link=link)
