"""A fitted target encoder as a Python value."""

from __future__ import annotations

import polars as pl

from polars_taiga import _taiga
from polars_taiga._categories import category_series
from polars_taiga._persisted import Persisted

__all__ = ["Encoder"]


class Encoder(Persisted):
    """A fitted target encoder: its columns, the value of each category, and its bytes.

    The bytes are what `fit_target_encoder` gives and what a file written by `save` holds. Equal encoders have
    equal bytes. An encoder can't be changed; it can be hashed, compared and pickled. `tg.encode` applies it.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> train = pl.DataFrame({"city": ["a", "a", "b"], "y": [1.0, 2.0, 9.0]})
    >>> encoder = train.taiga.fit_target_encoder("city", "y", prior_weight=0)
    >>> encoder
    Encoder(target='y', features=[city: 2 categories], 0.1 kB)
    >>> encoder.table("city").rows()
    [('a', 1.5), ('b', 9.0)]
    >>> encoder.prior
    {'city': 4.0}
    >>> tg.Encoder.from_bytes(encoder.to_bytes()) == encoder
    True
    """

    __slots__ = ()
    _inner: _taiga.Encoder
    _noun = "an encoder"
    _plugin_class = _taiga.Encoder

    @property
    def target(self) -> str:
        """The target's name."""
        return self._inner.target()

    @property
    def classes(self) -> list[str] | None:
        """The labels of a target of several classes, as text; `None` where a row gets one number."""
        return self._inner.classes()

    @property
    def features(self) -> dict[str, str]:
        """Name and kind of each column that it encodes, in the order of fitting: `"text"` (String, Categorical and Enum
        alike), `"integers"` (of any width) or `"Booleans"`.
        """
        return dict(self._inner.features())

    @property
    def computed_features(self) -> list[str]:
        """Of `features`, those that were not columns under these names at the fit but results of expressions, or
        fields of a struct: `encode` needs them given again.
        """
        return self._inner.computed()

    @property
    def categories(self) -> dict[str, list[str | None] | list[int | None] | list[bool | None]]:
        """The categories of each column, in the order in which the fit met them; `None` is null."""
        return {name: self._inner.categories(i) for i, name in enumerate(self.features)}

    @property
    def prior(self) -> dict[str, float | dict[str, float]]:
        """What each column gives for a category that the fit has not met: a number, or one for each class."""
        out: dict[str, float | dict[str, float]] = {}
        for i, name in enumerate(self.features):
            last = [values[-1] for values in self._inner.values(i)]
            out[name] = last[0] if self.classes is None else dict(zip(self.classes, last, strict=True))
        return out

    def table(self, feature: str | None = None) -> pl.DataFrame:
        """The values of a column's categories, one row each.

        Parameters
        ----------
        feature
            The column's name; may be left out where there is one.

        Returns
        -------
        DataFrame
            `category` (String, an integer type or Boolean; null for null) in the order in which the fit met them, and
            `value`, as `tg.encode` gives it: Float64, or a struct of Float64 with a field for each class. What the
            fit has not met gets `prior`.

        Raises
        ------
        ValueError
            For a column that it does not encode, and without a name where there are several.
        """
        names = list(self.features)
        if feature is None and len(names) > 1:
            msg = f"table: name one of the columns {', '.join(map(repr, names))}"
            raise ValueError(msg)
        if feature is not None and feature not in names:
            msg = f"table: {feature!r} is none of the columns {', '.join(map(repr, names))}"
            raise ValueError(msg)
        at = 0 if feature is None else names.index(feature)
        labels = category_series("category", self.features[names[at]], self._inner.categories(at))
        values = [numbers[:-1] for numbers in self._inner.values(at)]
        if self.classes is None:
            value = pl.Series("value", values[0], dtype=pl.Float64)
        else:
            fields = [pl.Series(c, v, dtype=pl.Float64) for c, v in zip(self.classes, values, strict=True)]
            value = pl.DataFrame(fields).to_struct("value")
        return pl.DataFrame([labels, value])

    def _label(self) -> str:
        columns = f"{len(self.features):,} column" + ("" if len(self.features) == 1 else "s")
        return f"encoder: {columns}"

    def __repr__(self) -> str:
        """One line: what it encodes by which target, and how large it is."""
        counts = [f"{name}: {len(labels):,} categories" for name, labels in list(self.categories.items())[:6]]
        more = f", … ({len(self.features)})" if len(self.features) > 6 else ""
        of = "" if self.classes is None else f", classes={len(self.classes)} labels"
        size = len(self.to_bytes()) / 1000
        return f"Encoder(target={self.target!r}{of}, features=[{', '.join(counts)}{more}], {size:,.1f} kB)"
