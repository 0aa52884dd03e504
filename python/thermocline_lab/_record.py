"""Run records, with their fields as attributes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Optional

from . import _native
from ._spec import Spec
from ._table import Table, Value


class Fields:
    """An object of a JSON text: its fields are attributes, in the units that their names end in.

    ``p10``, ``p50`` and ``p90`` of a life are years.
    """

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        for known in (name, f"years_{name}"):
            if known in self._data:
                return wrapped(self._data[known])
        raise AttributeError(f"there is no {name!r}; there are {', '.join(self._data)}")

    def __getitem__(self, name: str) -> Any:
        return wrapped(self._data[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._data]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._data)!r})"


def wrapped(value: Any) -> Any:
    """An object as `Fields`, another value as it is."""
    return Fields(value) if isinstance(value, dict) else value


class Record(Fields):
    """The record of a run: schema ``thermocline.run/1``.

    Bytes are ints, ratios are floats: ``alwa`` = device / host, ``dlwa`` = media / device, ``waf`` = media / host. A
    figure that was not modelled is ``None``. Notebooks show the report page of the run.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        super().__init__(json.loads(text))
        self._text = text

    def json(self) -> str:
        """The record as JSON."""
        return self._text

    @property
    def data(self) -> dict[str, Any]:
        """The JSON as Python objects, a new copy."""
        return dict(json.loads(self._text))

    @property
    def spec(self) -> Optional[Spec]:
        """The specification of the run."""
        spec = self._data.get("spec")
        return None if spec is None else Spec.from_json(json.dumps(spec))

    @property
    def causes(self) -> Table:
        """Written bytes by tier and cause.

        Columns: ``tier``, ``cause``, ``bytes``, and ``share_of_host``: bytes for each byte that the host wrote.
        """
        host = self._data["host_bytes_written"]
        tiers = {**self._data["engine_bytes_written"]}
        tiers["media"] = self._data["media_bytes_written"]["by_cause"]
        return Table.from_rows(
            {"tier": tier, "cause": cause, "bytes": count, "share_of_host": count / host if host else None}
            for tier, causes in tiers.items()
            for cause, count in causes.items()
        )

    @property
    def series(self) -> Table:
        """The run over its length, a row for each point; points are equal host bytes apart.

        Columns are the fields of a point. Latencies are nanoseconds, with a column for each percentile.
        """
        return Table.from_rows(_flat(point) for point in self._data["series"])

    def row(self) -> dict[str, Value]:
        """Main figures, as in a row of a sweep. Equal specifications give equal rows on every machine."""
        life = self._data.get("life") or {}
        latency = (self._data.get("latency_ns") or {}).get("write") or {}
        rate = self._data.get("bandwidth") or {}
        return {
            "waf": self._data["waf"],
            "alwa": self._data["alwa"],
            "dlwa": self._data["dlwa"],
            "waf_lasting": self._data["lasting"]["waf"],
            "steady": self._data["steady_state"]["reached"],
            "life_years_p10": life.get("years_p10"),
            "life_years_p50": life.get("years_p50"),
            "life_years_p90": life.get("years_p90"),
            "host_bytes_written": self._data["host_bytes_written"],
            "media_bytes_written": self._data["media_bytes_written"]["total"],
            "requests": self._data["requests"],
            "write_ns_p99": latency.get("p99"),
            "host_write_bytes_per_second": rate.get("host_write_bytes_per_second"),
        }

    def report(self, path: Optional[str] = None, title: Optional[str] = None) -> str:
        """The report as an HTML page that loads nothing. It is also written to `path`, if given."""
        page = _native.page(title or f"{self.stack}: {self.workload.name}", [self._text])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def __repr__(self) -> str:
        waf = self._data["waf"]
        shown = "unknown" if waf is None else f"{waf:.3f}"
        return f"<Record {self._data['stack']} {self._data['workload']['name']}: WAF {shown}>"

    def _repr_html_(self) -> str:
        return framed(self.report())


def framed(page: str) -> str:
    """A page as part of a notebook."""
    style = "width:100%;height:40em;border:0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" title="Thermocline" sandbox></iframe>'


def _flat(point: Mapping[str, Any]) -> dict[str, Value]:
    row: dict[str, Value] = {}
    for name, value in point.items():
        if name.endswith("_latency_ns"):
            for percentile, one in zip(("p50", "p99", "p99_9"), value or (None,) * 3):
                row[f"{name}_{percentile}"] = one
        else:
            row[name] = value
    return row
