"""Traces: files, traces that come with the program, and objects of a store."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import tempfile
from pathlib import Path
from typing import Any, Union

from . import _native


class Workload:
    """A source of requests, with the fields of its specification."""

    __slots__ = ("_workload",)

    def __init__(self, name: str, is_trace: bool, fields: dict[str, Any]) -> None:
        workload: dict[str, Any] = json.loads(_native.workload(name, is_trace))
        workload.update(fields)
        # A specification refuses fields that it does not have.
        _native.spec("raw:ideal", json.dumps(workload))
        self._workload = workload

    @property
    def name(self) -> str:
        """The text of a generator; the file, name or URL of a trace."""
        return str(self._workload.get("path") or self._workload.get("generator"))

    def analyze(self) -> Any:
        """Sizes, alignment, working set, skew, and what placement could reach; see `analyze`."""
        from ._lab import analyze

        return analyze(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self._workload == other._workload

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Generator(Workload):
    """A generator, such as ``zipf:0.99``, or a file of tenants.

    Fields are those of the specification: ``span_bytes``, ``drive_writes`` (times that the span is written), ``writes``
    and ``requests`` (counts), ``io_size_bytes``, ``read_share``, ``trim_share`` (0..1), ``rate`` (requests per second),
    ``burst_bytes``, ``idle_us``.

    >>> Generator("uniform", span_bytes=1 << 24).analyze().profile.span_bytes <= 1 << 24
    True
    """

    __slots__ = ()

    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text, False, fields)


class Trace(Workload):
    """A block trace: a file, the name of one that comes with the program, or the URL of an object.

    A URL is ``s3://``, ``gs://``, ``az://``, ``http(s)://`` or ``file://``; the extra ``s3`` reads it. Credentials and
    endpoints come from the environment, such as ``AWS_REGION``. The object is copied once to
    ``$XDG_CACHE_HOME/thermocline-lab``.

    Fields are those of the specification: ``format``, ``volume``, ``from_us``, ``until_us`` (microseconds since the
    first request), ``skip_bad``, ``remap``, ``loops`` (passes), ``ignore_trims``.

    >>> t = Trace("cassandra-ycsb-a", loops=1)
    >>> t.analyze().profile.requests > 0
    True
    """

    __slots__ = ()

    def __init__(self, path: Union[str, os.PathLike[str]], **fields: Any) -> None:
        super().__init__(os.fspath(path), True, fields)


Source = Union[str, Workload]


def workload_json(source: Source) -> str:
    """The JSON of a workload: a text names a generator, or a trace if it is a URL."""
    if isinstance(source, Workload):
        return json.dumps(source._workload)
    if is_url(source):
        return json.dumps(Trace(source)._workload)
    return _native.workload(source, False)


def is_url(path: str) -> bool:
    """Whether an object store has it."""
    return "://" in path


def fetched(url: str) -> str:
    """The path of a local copy of the object at `url`. The copy is of the object's present version."""
    import obstore
    from obstore.store import from_url

    parent, name = posixpath.split(url)
    # A store of files has its folder as root.
    store = from_url(parent)
    try:
        head = obstore.head(store, name)
    except FileNotFoundError as error:
        raise _native.TraceError(f"cannot read {url}: {error}") from error
    version = f"{url}\n{head.get('e_tag')}\n{head['size']}\n{head['last_modified']}"
    folder = _folder() / "traces" / hashlib.sha256(version.encode()).hexdigest()
    # The format of a trace may be told by its name.
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            for chunk in obstore.get(store, name).stream():
                part.write(chunk)
        os.replace(part.name, path)
    return str(path)


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "thermocline-lab"


def localised(workload: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The workload with local files only, and the URL of each of these files."""
    path = workload.get("path", "")
    if not is_url(path):
        return workload, {}
    local = fetched(path)
    return {**workload, "path": local}, {local: path}
