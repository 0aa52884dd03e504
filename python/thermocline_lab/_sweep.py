"""Sweeps: one run for every combination of values, here or on Ray."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._cache import Cache
from ._record import Record, framed
from ._spec import Spec, locally
from ._table import Table, Value
from ._trace import Source, Workload

Axes = dict[str, list[Any]]


class Made(NamedTuple):
    """The outcome of one combination: the name of its record and its row, or the reason for a missing record."""

    key: str
    row: dict[str, Value]
    error: Optional[str]
    record: Optional[str]


class Sweep(Table):
    """A table with a row for each combination: its values, the figures of its run, ``error`` and ``key``.

    ``key`` is the SHA-256 of the specification. Equal sweeps give equal tables, wherever they run. Notebooks show charts
    of sweeps over one or two keys.
    """

    __slots__ = ("axes", "_made", "_cache")

    axes: Axes
    _made: list[Made]
    _cache: Optional[Cache]

    @classmethod
    def _of(cls, axes: Axes, made: list[Made], cache: Optional[Cache]) -> Sweep:
        rows = []
        for values, one in zip(itertools.product(*axes.values()), made):
            shown = {name: _shown(value) for name, value in zip(axes, values)}
            rows.append({**shown, **one.row, "error": one.error, "key": one.key})
        sweep = cls.from_rows(rows)
        assert isinstance(sweep, Sweep)
        sweep.axes, sweep._made, sweep._cache = axes, made, cache
        return sweep

    def record(self, number: int) -> Record:
        """The record of row `number`."""
        one = self._made[number]
        text = one.record or (self._cache and self._cache.get(one.key))
        if not text:
            raise _native.Error(one.error or f"the cache has no record {one.key}")
        return Record(text)

    def _repr_html_(self) -> str:
        axes = {name: values for name, values in self.axes.items() if len(values) > 1}
        if len(axes) not in (1, 2):
            return super()._repr_html_()
        cells = []
        places = itertools.product(*(range(len(values)) for values in axes.values()))
        for number, (at, one) in enumerate(zip(places, self._made)):
            cells.append((list(at), None if one.error else self.record(number).json(), one.error or ""))
        shown = [(name, [str(_shown(value)) for value in values]) for name, values in axes.items()]
        return framed(_native.sweep_page("Sweep", shown, cells))


def _shown(value: Any) -> Value:
    if isinstance(value, Workload):
        return value.name
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def specs(
    stack: Union[str, Iterable[str]], workload: Union[Source, Iterable[Source]], **keys: Any
) -> Iterator[Spec]:
    """The specification of every combination, in the order of the rows of `sweep`."""
    axes = _axes(stack, workload, keys)
    for values in itertools.product(*axes.values()):
        given = dict(zip(axes, values))
        yield Spec(given.pop("stack"), given.pop("workload"), **given)


def _axes(stack: Any, workload: Any, keys: dict[str, Any]) -> Axes:
    given = {"stack": stack, "workload": workload, **keys}
    single = (str, bytes, Workload)
    return {
        name: list(value) if isinstance(value, Iterable) and not isinstance(value, single) else [value]
        for name, value in given.items()
    }


def sweep(
    stack: Union[str, Iterable[str]],
    workload: Union[Source, Iterable[Source]],
    *,
    on: str = "local",
    cache: Optional[str] = None,
    jobs: Optional[int] = None,
    **keys: Any,
) -> Sweep:
    """Runs every combination of values; the last key varies fastest.

    Each argument is a value, or a list or range of values; `keys` are those of `Spec`. A combination that cannot be
    run has its reason in column ``error``.

    `on` is ``"local"`` (threads of this process, `jobs` at a time), ``"ray"`` (the cluster of this machine or of
    ``RAY_ADDRESS``), or the ``ray://`` address of a cluster. `cache` is a folder or a URL that keeps records by the hash
    of their specification: a repeated run is a look-up. On a cluster, every worker must reach it.

    >>> table = sweep("raw:ideal", "uniform", op=[0.1, 0.3], seed=range(2), span="16MiB", writes=20_000)
    >>> table.shape[0], table["waf"][0] > table["waf"][2]
    (4, True)
    """
    axes = _axes(stack, workload, keys)
    all_specs = list(specs(stack, workload, **keys))
    shown = None if cache is None else str(cache)
    if on == "local":
        made = _on_threads(all_specs, shown, jobs)
    elif on == "ray" or on.startswith("ray://"):
        from ._ray import on_ray

        made = on_ray(all_specs, shown, None if on == "ray" else on)
    else:
        raise ValueError(f"on={on!r}: there are 'local', 'ray' and 'ray://HOST:PORT'")
    return Sweep._of(axes, made, None if shown is None else Cache(shown))


def make(text: str, place: Optional[str], stop: Optional[_native.Stop] = None) -> Made:
    """Runs a specification, or looks its record up in the cache at `place`."""
    cache = None if place is None else Cache(place)
    spec = Spec.from_json(text)
    try:
        spec = spec.hashed()
        key = spec.key()
        found = cache and cache.get(key)
        record = found or locally(spec.json(), lambda one: _native.run(one, stop))
        interrupted = json.loads(record)["interrupted"] is not None
    except _native.Interrupted:
        raise
    except _native.Error as error:
        return Made(spec.key(), {}, str(error), None)
    if interrupted:
        raise _native.Interrupted("the run was stopped")
    if cache and not found:
        cache.put(key, record)
    return Made(key, Record(record).row(), None, None if cache else record)


def _on_threads(all_specs: list[Spec], place: Optional[str], jobs: Optional[int]) -> list[Made]:
    stop = _native.Stop()
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        try:
            return list(pool.map(lambda spec: make(spec.json(), place, stop), all_specs))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
