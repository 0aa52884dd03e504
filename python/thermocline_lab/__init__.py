"""Predict how much a flash drive writes, and how long it lives, under your workload.

>>> import thermocline_lab as tl
>>> r = tl.run("raw:ideal", "uniform", span="16MiB", seed=7)
>>> r.waf > 1.0
True
>>> r.causes.columns
('tier', 'cause', 'bytes', 'share_of_host')

A run has a stack, such as ``raw:p5316`` (a drive) or ``log:p5316`` (our log on that drive), and a workload: the text of
a generator, or a `Trace`. The result is a run record of schema ``thermocline.run/1``. `Record` shows its fields under
their JSON names, in the units that the names end in.

Every table exports the Arrow C stream interface, so that polars, pandas, pyarrow and DuckDB read it. ``.pl()``,
``.df()`` and ``.arrow()`` import their library when they are called.
"""

from ._native import DefectError, DriveError, Error, Interrupted, SettingsError, TraceError
from ._fleet import Fleet, fleet
from ._lab import Analysis, Tried, analyze, experiments, reproduce, run, whatif
from ._policy import Policy, bench_placement
from ._record import Record
from ._spec import Spec
from ._sweep import Sweep, sweep
from ._table import Table
from ._trace import Generator, Trace

__all__ = [
    "Analysis",
    "DefectError",
    "DriveError",
    "Error",
    "Fleet",
    "Generator",
    "Interrupted",
    "Policy",
    "Record",
    "SettingsError",
    "Spec",
    "Sweep",
    "Table",
    "Trace",
    "TraceError",
    "Tried",
    "analyze",
    "bench_placement",
    "experiments",
    "fleet",
    "reproduce",
    "run",
    "sweep",
    "whatif",
]
