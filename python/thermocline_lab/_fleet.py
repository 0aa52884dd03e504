"""Fleets: which drives of many wear out before their service ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Optional, Union

from . import _native
from ._record import Fields
from ._table import Table, Value
from ._trace import Source, Trace, localised, workload_json

Rows = Union[str, "os.PathLike[str]", Table, Any]


class Fleet(Fields):
    """The answer for a fleet: schema ``thermocline.fleet/1``. Every interval is one of 90 %.

    ``answer`` is a sentence, ``worn_out`` a count with ``low``, ``likely`` and ``high``.
    """

    __slots__ = ()

    @property
    def drives(self) -> Table:
        """A row for each drive: ``worn_out_likely`` is a date, ``probability`` that it wears out in its service."""
        return _table(self._data["drives"])

    @property
    def classes(self) -> Table:
        """A row for each class: drives that wear out before their service ends, WAF."""
        return _table(self._data["classes"])

    @property
    def mends(self) -> Table:
        """A row for each class and option that was simulated: WAF as a share, drives worn out, what it saves."""
        rows = [{"class": of["name"], **mend} for of in self._data["classes"] for mend in of["mends"]]
        return _table(rows)

    @property
    def curve(self) -> Table:
        """Drives that are worn out by a date."""
        return _table(self._data["curve"])

    def json(self) -> str:
        """The answer as JSON."""
        return json.dumps(self._data)

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._data['answer'])}</p>{self.classes._repr_html_()}"


def fleet(
    rows: Union[Rows, Iterable[Rows]],
    *,
    service_years: Optional[float] = None,
    price: Optional[float] = None,
    traces: Optional[Mapping[str, Union[Source, Iterable[Source]]]] = None,
    device: str = "p5316",
    utilisation: float = 0.8,
    loops: Optional[int] = None,
) -> Fleet:
    """Forecasts which drives wear out before their service ends, as ``thermocline fleet`` does.

    `rows` are files (CSV, JSON, an answer of Prometheus) or tables: a `Table`, or a frame that exports the Arrow C
    stream interface, such as ``Table.from_parquet(path)`` or a frame of polars. Columns are ``serial``, ``model``,
    ``time`` (UTC, or seconds since 1970), ``host``, ``class``, ``capacity_bytes``, ``host_bytes``, ``media_bytes``,
    ``used_percent``, ``power_on_hours`` and ``service_end``. `price` is that of a drive, in any currency.

    `traces` has traces of hosts of each class. They are simulated on `device`, with a volume of the share `utilisation`
    of it, `loops` passes each, until the interval of their WAF is within 10 %.

    >>> rows = Table({"serial": ["a", "b"], "model": ["M", "M"], "time": [1.77e9, 1.77e9], "capacity_bytes": [1e12, 1e12],
    ...     "host_bytes": [9e14, 1e14], "used_percent": [90, 9], "power_on_hours": [17000, 17000]})
    >>> fleet(rows).drives["worn_out_likely"][0] < "2028"
    True
    """
    one = isinstance(rows, (str, os.PathLike)) or hasattr(rows, "__arrow_c_stream__")
    files = [_file(number, source) for number, source in enumerate([rows] if one else rows)]
    asked: _native.FleetAsked = {
        "service_years": service_years,
        "price": price,
        "traces": [(name, _workloads(sources)) for name, sources in (traces or {}).items()],
        "device": device,
        "utilisation": utilisation,
        "loops": loops,
    }
    return Fleet(json.loads(_native.fleet(files, asked)))


def _file(number: int, source: Rows) -> tuple[str, bytes]:
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        with open(path, "rb") as file:
            return path, file.read()
    from arro3.core import Table as Arrow

    arrow: Any = Arrow.from_arrow(source)
    columns = {name: arrow.column(name).to_pylist() for name in arrow.column_names}
    rows = (dict(zip(columns, values)) for values in zip(*columns.values()))
    known = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return f"table {number}", "\n".join(json.dumps(row, default=_moment) for row in known).encode()


def _moment(value: Any) -> str:
    """A date and time as the rows have it. One without a zone is of UTC."""
    return value.isoformat().replace("+00:00", "") + "Z"


def _workloads(sources: Union[Source, Iterable[Source]]) -> list[str]:
    alone = isinstance(sources, (str, Trace)) or not isinstance(sources, Iterable)
    all_: Iterable[Any] = [sources] if alone else sources
    return [json.dumps(localised(json.loads(workload_json(_trace(one))))[0]) for one in all_]


def _trace(source: Source) -> Source:
    return Trace(source) if isinstance(source, str) else source


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    return Table.from_rows(_flat(row) for row in rows)


def _flat(row: Mapping[str, Any]) -> dict[str, Value]:
    """A row with the parts of its objects as columns, without its lists."""
    flat: dict[str, Value] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}_{part}": one for part, one in _flat(value).items()})
        elif not isinstance(value, list):
            flat[name] = value
    return flat
