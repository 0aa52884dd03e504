"""Sweeps on Ray. By hand: `python -m pytest -m ray python/tests` with the extra `ray`; about a minute."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import thermocline_lab as tl

pytestmark = pytest.mark.ray

SWEEP = {
    "stack": ["raw:p5316", "raw:pm9d3"],
    "workload": ["uniform", "zipf:0.99"],
    "op": [0.1, 0.15, 0.2, 0.25, 0.3],
    "seed": range(10),
    "span": "64MiB",
    "writes": 40_000,
}


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
    yield ray
    ray.shutdown()


def kill_a_worker_at_work(ray, records):
    """Kills one worker that runs a task, once a quarter of `records` is there; returns its id."""
    task = ray.remote(lambda: (time.sleep(0.2), os.getpid())[1])
    ours = set(ray.get([task.remote() for _ in range(8)]))
    while len(list(records.glob("*/*.json"))) < 50:
        time.sleep(0.02)
    while True:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            command = process.read_bytes() if process.exists() else b""
            if command.startswith(b"ray::") and b"_task" in command and int(process.parent.name) in ours:
                os.kill(int(process.parent.name), signal.SIGKILL)
                return int(process.parent.name)


def test_a_killed_worker_changes_nothing(ray, tmp_path):
    local = tl.sweep(**SWEEP)
    killed = []
    hunter = threading.Thread(target=lambda: killed.append(kill_a_worker_at_work(ray, tmp_path)))
    hunter.start()
    begin = time.monotonic()
    there = tl.sweep(**SWEEP, on="ray", cache=tmp_path)
    took = time.monotonic() - begin
    hunter.join()
    requests = sum(local["requests"])
    print(f"killed {killed}; {len(there)} runs, {requests} requests in {took:.1f} s on two processors")
    assert len(killed) == 1 and len(local) == 200
    assert there == local
    begin = time.monotonic()
    assert tl.sweep(**SWEEP, on="ray", cache=tmp_path) == local
    print(f"the same from the cache: {time.monotonic() - begin:.1f} s")


def test_without_a_cache_records_come_with_the_table(ray):
    small = {**SWEEP, "op": [0.1], "seed": [1]}
    there = tl.sweep(**small, on="ray")
    assert there == tl.sweep(**small) and there.record(0).waf == there["waf"][0]
