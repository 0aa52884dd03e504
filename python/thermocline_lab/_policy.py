"""Placement policies of Python, beside those of Rust, in the yardstick of ``lab bench-placement``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from . import _native
from ._table import Table


class Policy:
    """A placement policy for a first try. Each block is a call of Python: about a hundred times slower than Rust.

    `classes` is the number of classes, each with an open unit. `survivors` are the classes that garbage collection
    copies to. Time is counted in host blocks written.

    >>> class Sepgc(Policy):
    ...     classes, survivors = 2, range(1, 2)
    ...     def place(self, lba, now):
    ...         return 0
    ...     def place_survivor(self, lba, from_class, utilisation, now):
    ...         return 1
    >>> small = {"blocks": 8192, "turnovers": 2, "blocks_per_unit": 64}
    >>> own, rust = bench_placement([Sepgc(), "sepgc"], "zipf-1.0", **small)["waf"]
    >>> own == rust > 1
    True
    """

    classes: int = 1
    survivors: range = range(1)

    def begin(self, blocks: int, units: int, blocks_per_unit: int) -> None:
        """Called once: the drive exports `blocks` of 4 KiB and has `units`."""

    def place(self, lba: int, now: int) -> int:
        """The class of block `lba` that the host writes, after `now` other blocks."""
        return 0

    def place_survivor(self, lba: int, from_class: int, utilisation: float, now: int) -> int:
        """The class that a valid block of a victim is copied to.

        The victim has class `from_class`; `utilisation` (0..1) is its share of valid blocks.
        """
        return self.survivors[0]


def bench_placement(
    policies: Iterable[Union[str, Policy]],
    workload: str = "zipf-1.0",
    *,
    blocks: int = 1 << 16,
    turnovers: float = 10.0,
    garbage: float = 0.15,
    blocks_per_unit: int = 512,
    victim: str = "greedy",
    seed: int = 1,
) -> Table:
    """The WAF of each policy on a full drive, as ``thermocline lab bench-placement`` measures it.

    `policies` are names of Rust policies, such as ``"sepbit"`` or ``"oracle-future"``, and objects of `Policy`.
    `workload` is a generated one (``"zipf-1.0"``, ``"drift"``, ``"logs"`` and so on) of `blocks` blocks of 4 KiB,
    written `turnovers` times, of which the second half is measured; or a trace file, all of it measured. `garbage` is
    1 - exported / physical.

    Columns: ``policy``, ``workload``, ``victim``, ``waf``.
    """
    rows = []
    for policy in policies:
        course: _native.Course = {
            "workload": workload,
            "blocks": blocks,
            "turnovers": turnovers,
            "garbage": garbage,
            "blocks_per_unit": blocks_per_unit,
            "victim": victim,
            "seed": seed,
            "classes": 1 if isinstance(policy, str) else policy.classes,
            "survivors": (0, 1) if isinstance(policy, str) else (policy.survivors.start, policy.survivors.stop),
        }
        name = policy if isinstance(policy, str) else type(policy).__name__
        waf = _native.yardstick(course, policy)
        rows.append({"policy": name, "workload": workload, "victim": victim, "waf": waf})
    return Table.from_rows(rows)
