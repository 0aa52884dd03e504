"""Runs and questions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._record import Fields, Record
from ._spec import Spec, locally
from ._table import Table
from ._trace import Source, Trace, localised, workload_json


class Analysis(Fields):
    """An analysis of a workload: schema ``thermocline.analyze/1``."""

    __slots__ = ()

    def json(self) -> str:
        """The analysis as JSON."""
        return json.dumps(self._data)


class Tried(NamedTuple):
    """An option of `whatif`, with its record, or the reason for a missing record."""

    option: str
    record: Optional[Record]
    reason: Optional[str]


def run(stack: Union[str, Spec], workload: Optional[Source] = None, **keys: Any) -> Record:
    """Runs a workload on a stack in virtual time.

    `stack` is ``raw:DEVICE``, ``tag:DEVICE``, ``log:DEVICE`` or ``tier:FAST+DEVICE``, or a whole `Spec`. `workload` is
    the text of a generator, such as ``"zipf:0.99"``, a `Trace`, or the URL of one. `keys` are those of `Spec`.

    The interpreter's lock is free during the run, and Ctrl-C ends it.

    >>> r = run("log:zn540", "zipf:0.99", placement="auto", utilisation=0.8, span="64MiB", writes=20_000)
    >>> r.spec.data["placement"], r.waf == run(r.spec).waf
    ('auto', True)
    >>> run("raw:nothing", "uniform")
    Traceback (most recent call last):
    ...
    thermocline_lab.SettingsError: ...
    """
    spec = _spec(stack, workload, keys).hashed()
    return Record(locally(spec.json(), _native.run))


def _spec(stack: Union[str, Spec], workload: Optional[Source], keys: dict[str, Any]) -> Spec:
    if isinstance(stack, Spec):
        return stack.replace(workload, **keys)
    if workload is None:
        raise TypeError("a run has a stack and a workload")
    return Spec(stack, workload, **keys)


def analyze(workload: Source) -> Analysis:
    """Sizes, alignment, working set, skew of a workload, and the WAF that placement could reach.

    >>> analyze(Trace("cassandra-ycsb-a")).profile.requests
    6968
    """
    local, _ = localised(json.loads(workload_json(workload)))
    return Analysis(json.loads(_native.analyze(json.dumps(local))))


def whatif(
    device: str,
    workload: Source,
    *,
    loops: Optional[int] = None,
    fast: Optional[str] = None,
    fast_share: Optional[float] = None,
    utilisation: Optional[float] = None,
    streams: Optional[int] = None,
    queue_depth: Optional[int] = None,
    seed: Optional[int] = None,
    jobs: Optional[int] = None,
) -> list[Tried]:
    """What discards, hints, streams, FDP, zones or a fast tier would buy: each alone, on equal media.

    The first option is the drive as it is. `fast_share` is the capacity of the fast tier as a share of the drive's;
    `utilisation` is the share of the drive that the volume takes; `jobs` is the number of runs at a time.
    """
    local, urls = localised(json.loads(workload_json(workload)))
    question: _native.Question = {
        "loops": loops,
        "fast": fast,
        "fast_share": fast_share,
        "utilisation": utilisation,
        "streams": streams,
        "queue_depth": queue_depth,
        "seed": seed,
        "jobs": jobs,
    }
    tried = json.loads(_native.whatif(device, json.dumps(local), question))
    for one in tried:
        workload_of = ((one["record"] or {}).get("spec") or {}).get("workload", {})
        if workload_of.get("path") in urls:
            workload_of["path"] = urls[workload_of["path"]]
    return [
        Tried(one["option"], one["record"] and Record(json.dumps(one["record"])), one["reason"]) for one in tried
    ]


def experiments() -> list[str]:
    """Names of the published experiments.

    >>> "uniform-greedy" in experiments()
    True
    """
    return _native.experiments()


def reproduce(name: str, *, quick: bool = True) -> Table:
    """Repeats a published experiment. `quick` makes it smaller than in its document, where that is large.

    Columns: ``what``, ``theirs`` (the published value, ``None`` without one), ``ours``.
    """
    figures = json.loads(_native.reproduce(name, quick))["figures"]
    return Table({column: [figure[column] for figure in figures] for column in ("what", "theirs", "ours")})
