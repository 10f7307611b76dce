"""Models as SQL text, trees as CASE expressions; this needs the package `sqlglot`."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from polars_taiga._ensemble import Above, Among, Ensemble, Function, Linear, RankAbove, Source, ensemble_of
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_taiga._ensemble import Test
    from polars_taiga.model import Model

__all__ = ["to_sql"]

# Trees that are added in one expression: databases limit how deep these are, 1000 operators in SQLite and DuckDB.
_TREES = 200

# What takes quoted names that differ in case for one; in ASCII letters alone, and in any.
_ASCII_CASE = ("duckdb", "sqlite")
_ANY_CASE = (
    *("athena", "bigquery", "databricks", "doris", "drill", "dune", "hive", "mysql", "presto", "redshift"),
    *("singlestore", "spark", "spark2", "starrocks", "teradata", "trino", "tsql"),
)

# What has no NaN, and what tells it by a function because it is not equal to itself there.
_WITHOUT_NAN, _UNEQUAL_NAN = ("sqlite", "mysql", "tsql", "oracle"), ("bigquery",)


def to_sql(
    model: Model,
    dialect: str,
    table: str,
    *,
    keep: str | Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    max_length: int = 1_000_000,
) -> str:
    """Write a model as a SELECT statement; see `Model.to_sql`."""
    found = ensemble_of("to_sql", model, linear_leaves=True)
    writer = _Writer(dialect, found, dict(columns or {}), _names(keep), max_length)
    return writer.statement(table)


def _names(keep: str | Sequence[str]) -> list[str]:
    """The columns to keep; a string is one name."""
    names = [keep] if isinstance(keep, str) else list(keep)
    for i, name in enumerate(names):
        if not isinstance(name, str):
            msg = f"to_sql: keep: {name!r} is not a column's name"  # type: ignore[unreachable]
            raise TypeError(msg)
        if name in names[:i]:
            msg = f"to_sql: keep: `{name}` stands there twice"
            raise ValueError(msg)
    return names


class _Writer:
    """The statement of a model, from the inside out: each stage selects from the one before it."""

    def __init__(
        self, dialect: str, found: Ensemble | Linear, columns: dict[str, str], keep: list[str], most: int
    ) -> None:
        self.exp = needed("to_sql", "sqlglot", "sql").exp
        dialects = needed("to_sql", "sqlglot.dialects.dialect", "sql").Dialect
        if not isinstance(dialect, str) or dialect.lower() not in dialects.classes:
            known = ", ".join(sorted(name for name in dialects.classes if name))
            msg = f"to_sql: {dialect!r} is no dialect that sqlglot knows: {known}"
            raise ValueError(msg)
        self.dialect, self.found, self.keep, self.most = dialect.lower(), found, keep, most
        self.length = 0
        self.categories: dict[int, list[str]] = {}
        for name in columns:
            if name not in [c.name for c in found.columns]:
                msg = f"to_sql: columns: the model of `{found.target}` reads no column `{name}`"
                raise ValueError(msg)
        self.given = columns
        self._check_cases("keep", keep)
        # The names of what is on its way begin so that nothing else does.
        self.prefix = "m"
        while any(name.lower().startswith(self.prefix) for name in keep):
            self.prefix += "_"
        self.table = ""  # what it is called, once it is read

    def statement(self, table: str) -> str:
        used = self._used()
        names = [self.found.columns[i].name for i in used]
        self._check_cases("columns", [name for name in names if name not in self.given])
        source = self._table(table)
        inputs = {self._column(i): self._input(self.found.columns[i]) for i in used}
        kept = {self._name(name): self._of_table(name) for name in self.keep}
        text = self._select({**kept, **inputs} or {f"{self.prefix}x": "1"}, source)
        if isinstance(self.found, Linear):
            return self._predictions(self._stage(text, self._linear(), {}))
        return self._predictions(self._trees(text, self.found, list(inputs)))

    def _folded(self, name: str) -> str | bytes:
        """A name as the database compares it."""
        if self.dialect in _ASCII_CASE:
            return name.encode().lower()
        return name.lower() if self.dialect in _ANY_CASE else name

    def _check_cases(self, what: str, names: Sequence[str]) -> None:
        """Raise for names that are one to the database, which would read one column for all of them."""
        known: dict[str | bytes, str] = {}
        for name in names:
            other = known.setdefault(self._folded(name), name)
            if other != name:
                msg = (
                    f"to_sql: {what}: `{other}` and `{name}` differ in case alone, and are one column in {self.dialect}"
                )
                raise ValueError(msg)

    def _table(self, table: str) -> str:
        """The table under a name, by which its columns are asked for."""
        if not isinstance(table, str):
            msg = f"to_sql: table: {table!r} is not a table's name"  # type: ignore[unreachable]
            raise TypeError(msg)
        wrong = needed("to_sql", "sqlglot.errors", "sql").SqlglotError
        try:
            found = self.exp.to_table(table, dialect=self.dialect) if table.strip() else None
            text: str = "" if found is None else self._under_name(found).sql(dialect=self.dialect)
        except wrong as error:
            msg = f"to_sql: table: {table!r} can't be read as a table in SQL: {error}"
            raise ValueError(msg) from None
        if not text:
            msg = f"to_sql: table: {table!r} is no table's name"
            raise ValueError(msg)
        return text

    def _under_name(self, table: Any) -> Any:
        """A table and its alias: one that it has, its own name where what is given may call it by that, or ours."""
        if table.args.get("alias") is None:
            is_named = bool(self.given) and isinstance(table.this, self.exp.Identifier)
            name, quoted = (table.name, table.this.quoted or None) if is_named else (f"{self.prefix}t", None)
            table.set("alias", self.exp.TableAlias(this=self.exp.to_identifier(name, quoted=quoted)))
        self.table = table.args["alias"].this.sql(dialect=self.dialect)
        return table

    def _of_table(self, name: str) -> str:
        """A column of the table. Without the table's name SQLite takes one that is not there for a text."""
        return f"{self.table}.{self._name(name)}"

    def _kept(self) -> dict[str, str]:
        return {self._name(name): self._name(name) for name in self.keep}

    def _select(self, items: Mapping[str, str], source: str) -> str:
        """`SELECT value AS name, … FROM source`."""
        text = ", ".join(name if name == value else f"{value} AS {name}" for name, value in items.items())
        self._check_length(len(text) + len(source))
        return f"SELECT {text} FROM {source}"

    def _check_length(self, length: int) -> None:
        if length > self.most:
            msg = (
                f"to_sql: the statement is longer than max_length={self.most:,} characters: the model is large for "
                "SQL; model.head(rounds) is a smaller one"
            )
            raise ValueError(msg)

    def _stage(self, text: str, items: Mapping[str, str], also: Mapping[str, str]) -> str:
        """A statement that selects from another one."""
        self.length += 1
        return self._select({**self._kept(), **also, **items}, f"({text}) AS {self.prefix}q{self.length}")

    def _used(self) -> list[int]:
        if isinstance(self.found, Linear):
            return list(range(len(self.found.columns)))
        used: set[int] = set()
        for test in self.found.tests():
            used.update(
                self.found.statistics[test.statistic].columns if isinstance(test, RankAbove) else (test.column,)
            )
        used.update(column for tree in self.found.trees for of in tree.linear.values() for column, _ in of.terms)
        return sorted(used)

    def _column(self, i: int) -> str:
        return f"{self.prefix}x{i}"

    def _name(self, name: str) -> str:
        text: str = self.exp.to_identifier(name, quoted=True).sql(dialect=self.dialect)
        return text

    def _double(self, text: str) -> str:
        kind = self.exp.DataType.build("double").sql(dialect=self.dialect)
        return f"CAST({text} AS {kind})"

    def _input(self, column: Source) -> str:
        """What a column's value is: its category, or its number as a double, missing where it is NaN."""
        value = self.given.get(column.name, self._of_table(column.name))
        if column.is_category:
            return value
        if column.is_temporal and column.name not in self.given:
            msg = (
                f"to_sql: column `{column.name}` is {column.dtype}: say by columns= how its ticks are computed, "
                f"{{{column.name!r}: 'epoch_us(…)'}}"
            )
            raise ValueError(msg)
        number = self._double(value)
        if self.dialect in _WITHOUT_NAN:
            return number
        if self.dialect in _UNEQUAL_NAN:
            return f"CASE WHEN IS_NAN({number}) THEN NULL ELSE {number} END"
        return f"NULLIF({number}, {self._double(self._text('NaN'))})"

    def _text(self, value: str) -> str:
        text: str = self.exp.Literal.string(value).sql(dialect=self.dialect)
        return text

    def _number(self, value: float, exact: bool = False) -> str:
        """A double that is read as the same one. `exact`: also where a database is careless about many digits."""
        if math.isinf(value):
            if self.dialect == "sqlite":
                return "9e999" if value > 0 else "(-9e999)"
            return self._double(self._text("Infinity" if value > 0 else "-Infinity"))
        text = repr(value)
        if exact and self.dialect == "sqlite" and sum(c.isdigit() for c in text.split("e")[0]) > 15:
            text = self._ratio(value)
        # With an exponent it is no decimal.
        if "*" in text or "/" in text:
            return f"({text})"
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if value < 0 else text

    @staticmethod
    def _ratio(value: float) -> str:
        """A number as an integer times or over powers of two, which are read and computed exactly."""
        mantissa, exponent = math.frexp(value)
        whole, exponent = int(mantissa * 2**53), exponent - 53
        text = f"{whole}.0"
        while exponent:
            step = max(-60, min(60, exponent))
            text += f"*{2**step}.0" if step > 0 else f"/{2**-step}.0"
            exponent -= step
        return text

    def _category(self, i: int, code: int) -> str:
        """A category as a literal."""
        if i not in self.categories:
            self.categories[i] = [self._literal(value) for value in self.found.columns[i].categories or ()]
        return self.categories[i][code]

    def _literal(self, value: Any) -> str:
        if isinstance(value, bool):
            text: str = (self.exp.true() if value else self.exp.false()).sql(dialect=self.dialect)
            return text
        if isinstance(value, int):
            return str(value)
        return self._number(value) if isinstance(value, float) else self._text(str(value))

    def _is_among(self, i: int, codes: Sequence[int]) -> str:
        """Whether a column's category is one of some; false or null where it is not."""
        categories, name = self.found.columns[i].categories or [], self._column(i)
        listed = ", ".join(self._category(i, code) for code in codes if categories[code] is not None)
        parts = [f"{name} IN ({listed})"] if listed else []
        parts += [f"{name} IS NULL"] if any(categories[code] is None for code in codes) else []
        return " OR ".join(parts)

    def _split(self, test: Test, left: str, right: str) -> str:
        if isinstance(test, Above):
            return self._numbers_split(test, left, right)
        if isinstance(test, Among):
            cardinality = len(self.found.columns[test.column].categories or ())
            if not test.others_right:
                inside, outside, codes = right, left, list(test.codes)
            else:
                inside, outside = left, right
                codes = sorted(set(range(cardinality)) - set(test.codes))
            return self._case(self._is_among(test.column, codes), inside, outside)
        assert isinstance(self.found, Ensemble)
        statistic = self.found.statistics[test.statistic]
        *ranks, unknown = statistic.ranks
        inside, outside = (left, right) if unknown > test.rank else (right, left)
        keys = [k for k, rank in enumerate(ranks) if (rank > test.rank) != (unknown > test.rank)]
        if statistic.keys is None:
            return self._case(self._is_among(statistic.columns[0], keys), inside, outside)
        parts = []
        for k in keys:
            key, codes = statistic.keys[k], []
            for cardinality in reversed(statistic.cardinalities):
                key, code = divmod(key, cardinality)
                codes.append(code)
            each = zip(statistic.columns, reversed(codes), strict=True)
            parts.append("(" + " AND ".join(self._is_among(column, [code]) for column, code in each) + ")")
        return self._case(" OR ".join(parts), inside, outside)

    @staticmethod
    def _case(condition: str, inside: str, outside: str) -> str:
        """Choose `inside` where a condition is true, `outside` where it is false or null; an empty one is false."""
        return f"CASE WHEN {condition} THEN {inside} ELSE {outside} END" if condition else outside

    def _numbers_split(self, test: Above, left: str, right: str) -> str:
        name = self._column(test.column)
        if test.border == math.inf:
            return left if test.missing_left else self._case(f"{name} IS NULL", right, left)
        border = self._number(test.border, exact=True)
        # A comparison with null is null, and goes to ELSE.
        if test.missing_left:
            return self._case(f"{name} > {border}", right, left)
        return self._case(f"{name} <= {border}", left, right)

    def _trees(self, text: str, found: Ensemble, inputs: list[str]) -> str:
        """Stages that add trees, some hundred each, in their order, and one that makes raw scores of the sums."""
        also = {name: name for name in inputs}
        sums: dict[int, str] = {}
        length = 0
        for first in range(0, len(found.trees), _TREES):
            items: dict[str, str] = {}
            for tree in found.trees[first : first + _TREES]:
                for place, output in enumerate(tree.outputs):
                    name = self._score(output)
                    value = self._tree(tree.nodes, [leaf[place] for leaf in tree.leaves], tree.linear)
                    length += len(value)
                    self._check_length(length)
                    before = items.get(name, sums.get(output, ""))
                    items[name] = f"{before} + {value}" if before else value
            done = {name: name for name in sums.values() if name not in items}
            text = self._stage(text, {**done, **items}, also)
            sums.update({k: self._score(k) for k in range(found.outputs) if self._score(k) in items})
        scores = {}
        for output, start in enumerate(found.start):
            total = sums.get(output, self._number(0.0))
            if found.is_mean:
                scores[self._score(output)] = f"{total} / {self._number(float(len(found.trees)))}"
            else:
                scores[self._score(output)] = f"{self._number(start)} + {self._number(found.scale)} * ({total})"
        return self._stage(text, scores, {})

    def _tree(self, nodes: Sequence[Any], leaves: Sequence[float], linear: Mapping[int, Function]) -> str:
        texts = [""] * len(nodes)

        def of(child: int) -> str:
            return texts[child] if child >= 0 else self._leaf(leaves[~child], linear.get(~child))

        for i in range(len(nodes) - 1, -1, -1):
            texts[i] = self._split(nodes[i].test, of(nodes[i].left), of(nodes[i].right))
        return texts[0] if nodes else of(-1)

    def _leaf(self, value: float, function: Function | None) -> str:
        """A leaf's value: that of its function where it is finite, the plain one else."""
        if function is None:
            return self._number(value)
        terms = [f"{self._number(by)} * {self._column(column)}" for column, by in function.terms]
        total = " + ".join([self._number(function.constant), *terms])
        most = self._number(sys.float_info.max, exact=True)
        # A comparison with null is null, and goes to ELSE.
        return f"CASE WHEN ABS({total}) <= {most} THEN {total} ELSE {self._number(value)} END"

    def _linear(self) -> dict[str, str]:
        assert isinstance(self.found, Linear)
        scores = {}
        for output, intercept in enumerate(self.found.intercepts):
            products = [f"{self._number(w[output])} * {self._column(i)}" for i, w in enumerate(self.found.weights)]
            scores[self._score(output)] = " + ".join([self._number(intercept), *products])
        return scores

    def _score(self, output: int) -> str:
        return f"{self.prefix}s{output}"

    def _predictions(self, text: str) -> str:
        """The last stages: from raw scores to predictions and classes."""
        found = self.found
        outputs = len(found.intercepts) if isinstance(found, Linear) else found.outputs
        scores = [self._score(k) for k in range(outputs)]
        fields = [str(x) for x in found.labels] if isinstance(found, Linear) and outputs > 1 else None
        fields = found.fields if isinstance(found, Ensemble) else fields
        likeliest = self._class(scores)
        predicted = {self._name(f"predicted_{found.target}"): likeliest} if likeliest else {}
        text, values = self._linked(text, scores, predicted)
        if isinstance(found, Ensemble) and found.is_mean and fields is None and outputs == 2:
            values = values[1:]  # of two shares the second is the prediction
        names = ["prediction"] if fields is None else [f"prediction_{name}" for name in fields]
        taken = [self._folded(name) for name in [*names, *([f"predicted_{found.target}"] if predicted else [])]]
        for name in self.keep:
            if self._folded(name) in taken:
                msg = f"to_sql: keep: `{name}` is what a column of the statement is called, and would stand there twice"
                raise ValueError(msg)
        items = {self._name(name): value for name, value in zip(names, values, strict=True)}
        # The class was chosen by raw scores, in the stage before.
        return self._stage(text, {**items, **{name: name for name in predicted}}, {})

    def _linked(self, text: str, scores: list[str], predicted: dict[str, str]) -> tuple[str, list[str]]:
        """A statement that has what predictions are made of, with the class, and the predictions' expressions."""
        also = {s: s for s in scores}
        passed = {name: name for name in predicted}
        link = self.found.link
        text = self._stage(text, predicted, also) if predicted else text
        if link == "sigmoid":
            each = "CASE WHEN {0} >= 0 THEN 1e0 / (1e0 + EXP(-{0})) ELSE EXP({0}) / (1e0 + EXP({0})) END"
            return text, [each.format(s) for s in scores]
        if link == "exp":
            return text, [f"EXP({s})" for s in scores]
        if link == "mean_variance":
            return text, [scores[0], f"EXP(2e0 * {scores[1]})"]
        if link == "softmax":
            most, total = f"{self.prefix}most", f"{self.prefix}total"
            text = self._stage(text, {**passed, most: self._greatest(scores)}, also)
            text = self._stage(text, {**passed, **{s: f"EXP({s} - {most})" for s in scores}}, {})
            text = self._stage(text, {**passed, total: " + ".join(scores)}, also)
            return text, [f"{s} / {total}" for s in scores]
        if link == "ascending":
            # Neighbours change places, the even and the odd ones in turn: as many turns as there are numbers sort.
            for turn in range(len(scores)):
                items = dict(also)
                for k in range(turn % 2, len(scores) - 1, 2):
                    items[scores[k]] = self._least(scores[k : k + 2])
                    items[scores[k + 1]] = self._greatest(scores[k : k + 2])
                text = self._stage(text, items, passed)
        return text, scores

    def _greatest(self, names: list[str]) -> str:
        return f"{'MAX' if self.dialect == 'sqlite' else 'GREATEST'}({', '.join(names)})"

    def _least(self, names: list[str]) -> str:
        return f"{'MIN' if self.dialect == 'sqlite' else 'LEAST'}({', '.join(names)})"

    def _class(self, scores: list[str]) -> str | None:
        """The likeliest class; the first of those that are as likely."""
        labels = self.found.labels
        if labels is None:
            return None
        texts = [self._literal(label) for label in labels]
        if len(scores) == 1:
            return f"CASE WHEN {scores[0]} > 0 THEN {texts[-1]} ELSE {texts[0]} END"
        cases = ""
        for k, text in enumerate(texts[:-1]):
            others = " AND ".join(f"{scores[k]} >= {other}" for other in scores[k + 1 :])
            cases += f" WHEN {others} THEN {text}"
        return f"CASE{cases} ELSE {texts[-1]} END" if cases else texts[-1]
