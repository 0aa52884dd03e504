"""Tables: named columns of equal length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Value = Union[bool, int, float, str, None]

ROWS_SHOWN = 20


class Table:
    """Named columns of equal length. A column holds bools, ints, floats or texts; ``None`` is a missing value.

    A column with ints and floats becomes one of floats.

    >>> t = Table({"op": [0.07, 0.15], "waf": [3.0, None]})
    >>> t.shape, t["op"]
    ((2, 2), [0.07, 0.15])
    >>> Table.from_arrow(t) == t
    True
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Sequence[Value]]) -> None:
        self._columns = {name: _column(name, values) for name, values in columns.items()}
        if len({len(values) for values in self._columns.values()}) > 1:
            raise ValueError("columns of a table have equal lengths")

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Value]]) -> Table:
        """The table of these rows. A name that a row does not have is ``None`` there."""
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    @classmethod
    def from_arrow(cls, data: Any) -> Table:
        """The table of any object that exports the Arrow C stream interface, such as a frame of polars."""
        from arro3.core import Table as Arrow

        arrow: Any = Arrow.from_arrow(data)
        return cls({name: arrow.column(name).to_pylist() for name in arrow.column_names})

    @classmethod
    def from_parquet(cls, path: str) -> Table:
        """The table in a Parquet file."""
        from arro3.io import read_parquet

        return cls.from_arrow(read_parquet(str(path)))

    def parquet(self, path: str) -> None:
        """Writes the table to a Parquet file."""
        from arro3.io import write_parquet

        write_parquet(self, str(path))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of one Arrow record batch."""
        return self._arro3().__arrow_c_stream__(requested_schema)

    def _arro3(self) -> Any:
        from arro3.core import Array, Field, RecordBatch, Schema
        from arro3.core import Table as Arrow

        types = {name: _arrow_type(values) for name, values in self._columns.items()}
        schema = Schema([Field(name, one, nullable=True) for name, one in types.items()])
        arrays = [Array(values, type=types[name]) for name, values in self._columns.items()]
        if not arrays:
            return Arrow.from_batches([], schema=schema)
        return Arrow.from_batches([RecordBatch.from_arrays(arrays, schema=schema)], schema=schema)

    def pl(self) -> polars.DataFrame:
        """The table as a frame of polars (extra ``polars``)."""
        import polars

        return polars.DataFrame(self)

    def df(self) -> pandas.DataFrame:
        """The table as a frame of pandas (extra ``pandas``)."""
        import pandas

        return pandas.DataFrame(self._columns)

    def arrow(self) -> pyarrow.Table:
        """The table as one of pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self._columns)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Each row by name of column."""
        for values in zip(*self._columns.values()):
            yield dict(zip(self._columns, values))

    def __getitem__(self, name: str) -> list[Value]:
        return list(self._columns[name])

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return list(self._columns.items()) == list(other._columns.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ", ".join(self._columns)
        return f"<{type(self).__name__} of {len(self)} rows: {names}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        body = ""
        for number, row in enumerate(self.rows()):
            if number == ROWS_SHOWN:
                body += f"<tr><td colspan={len(row)}>{len(self) - number} more rows</td></tr>"
                break
            body += "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row.values()) + "</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else escape(str(value))


def _kind(name: str, values: Sequence[Value]) -> type:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return int if kinds == {int} else float
    if len(kinds) > 1 or not kinds <= {bool, str}:
        raise TypeError(f"column {name!r} mixes {sorted(kind.__name__ for kind in kinds)}")
    return kinds.pop()


def _column(name: str, values: Sequence[Value]) -> list[Value]:
    if _kind(name, values) is float:
        return [None if value is None else float(value) for value in values]
    return list(values)


def _arrow_type(values: Sequence[Value]) -> Any:
    from arro3.core import DataType

    kind = _kind("", values)
    if kind is int:
        most = max(value for value in values if isinstance(value, int))
        return DataType.uint64() if most >= 1 << 63 else DataType.int64()
    return {bool: DataType.bool(), float: DataType.float64(), str: DataType.utf8()}[kind]
