"""Values that travel as bytes: what models and encoders share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polars_taiga import _plugin
from polars_taiga._files import write_whole

if TYPE_CHECKING:
    import os

    import polars as pl
    from typing_extensions import Self


class Persisted:
    """A value that is made of its bytes, and is equal to others by them."""

    __slots__ = ("_inner", "_known_literal")
    _inner: Any
    _known_literal: pl.Expr

    # What it is, and the plugin's class that reads its bytes.
    _noun: ClassVar[str]
    _plugin_class: ClassVar[Any]

    def __init__(self, data: bytes) -> None:
        """The value of these bytes; the same as `from_bytes`."""
        if not isinstance(data, bytes | bytearray | memoryview):
            msg = f"{self._noun} is made of its bytes, not of {type(data).__name__}"  # type: ignore[unreachable]
            raise TypeError(msg)
        self._inner = self._plugin_class.from_bytes(bytes(data))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the value of these bytes.

        Raises
        ------
        ValueError
            For anything but the whole, undamaged bytes of one that this version can read.
        """
        return cls(data)

    def to_bytes(self) -> bytes:
        """Return its bytes."""
        data: bytes = self._inner.to_bytes()
        return data

    def _label(self) -> str:
        """What it is, in a line."""
        raise NotImplementedError

    def _literal(self) -> pl.Expr:
        """The value as a literal of a query, which is made once: it holds all the bytes."""
        try:
            return self._known_literal
        except AttributeError:
            self._known_literal = _plugin.labelled(self._label(), self.to_bytes())
            return self._known_literal

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote."""
        return cls(Path(path).read_bytes())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write its bytes to a file, whole or not at all.

        They go to a new file beside it, which takes its place once they are on the disk: whoever reads the
        path meanwhile, or after a crash, finds what stood there before or all of this.

        Raises
        ------
        OSError
            Where the folder can't be written to; what stood at the path is then as it was.
        """
        write_whole(Path(path).resolve(), self.to_bytes())

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same bytes."""
        return isinstance(other, Persisted) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        """A hash of the bytes."""
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        """Pickled as its bytes."""
        return (type(self), (self.to_bytes(),))
