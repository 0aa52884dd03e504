"""Runs as tasks of Ray."""

from __future__ import annotations

import os
from typing import Any, Optional

from ._spec import Spec
from ._sweep import Made, make

# Tasks handed to the cluster before the first is awaited, for each of its processors: enough to keep all busy.
AHEAD = 4
# Memory declared for a run: a part that every run needs, and bytes for each block of 4 KiB that is simulated (map,
# reverse map, placement). Chosen, not measured.
FIXED_BYTES = 200 << 20
BYTES_PER_BLOCK = 32


def on_ray(specs: list[Spec], place: Optional[str], address: Optional[str]) -> list[Made]:
    """The outcome of each specification, in order. One task is one run on one processor; a lost task is repeated."""
    import ray

    if not ray.is_initialized():
        connect(ray, address)
    task = ray.remote(num_cpus=1, max_retries=-1)(_task)
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    made: list[Optional[Made]] = [None] * len(specs)
    running: dict[Any, int] = {}
    for number, spec in enumerate(specs):
        if len(running) >= most:
            _collect(ray, running, made)
        options = task.options(memory=memory_bytes(spec))
        running[options.remote(spec.json(), place)] = number
    while running:
        _collect(ray, running, made)
    return [one for one in made if one is not None]


def connect(ray: Any, address: Optional[str]) -> None:
    """Joins the cluster at `address`; without an address, that of ``RAY_ADDRESS`` or a new one on this machine."""
    if address or os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, log_to_driver=False)
    else:
        ray.init(include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)


def memory_bytes(spec: Spec) -> int:
    """Memory that a run is declared to need."""
    data = spec.data
    span = data["workload"].get("span_bytes") or data.get("capacity_bytes") or 1 << 30
    return int(FIXED_BYTES + span / data["utilisation"] / 4096 * BYTES_PER_BLOCK)


def _task(text: str, place: Optional[str]) -> tuple[Any, ...]:
    return tuple(make(text, place))


def _collect(ray: Any, running: dict[Any, int], made: list[Optional[Made]]) -> None:
    done, _ = ray.wait(list(running), num_returns=1)
    for one in done:
        made[running.pop(one)] = Made(*ray.get(one))
