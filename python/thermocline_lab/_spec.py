"""Specifications of runs."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Optional

from . import _native
from ._trace import Source, localised, workload_json

# Keys with a short name here.
SHORT = {"op": "device.op"}
# Fields of a specification that are not keys of a sweep.
FIELDS = ("prefill", "tag_by", "daily_writes_bytes")


class Spec:
    """All inputs that decide the figures of one run: schema ``thermocline.spec/1``.

    Keys are those of ``thermocline lab sweep``, such as ``utilisation`` (0..1), ``queue_depth``, ``seed``, ``span`` and
    ``writes``. Sizes are ints (bytes) or texts, such as ``"16MiB"``. Two underscores are a dot: ``log__unit="64MiB"``.
    ``op`` is ``device.op``: overprovisioning, (media - capacity) / capacity.

    >>> spec = Spec("raw:p5316", "zipf:0.99", op=0.15, seed=3)
    >>> Spec.from_json(spec.json()) == spec
    True
    >>> spec.data["set"], spec.data["seed"]
    (['device.op=0.15'], 3)
    """

    __slots__ = ("_text",)

    def __init__(self, stack: str, workload: Source, **keys: Any) -> None:
        text = _native.spec(stack, workload_json(workload))
        self._text = _with(text, keys)

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Reads a specification, or that of a run record."""
        spec = cls.__new__(cls)
        spec._text = _native.set(text, [])
        return spec

    def json(self) -> str:
        """The specification as indented JSON."""
        return self._text

    @property
    def data(self) -> dict[str, Any]:
        """The JSON as Python objects, a new copy."""
        return dict(json.loads(self._text))

    def replace(self, workload: Optional[Source] = None, **keys: Any) -> Spec:
        """The specification with another workload, if given, and with these keys."""
        data = self.data
        if workload is not None:
            data["workload"] = json.loads(workload_json(workload))
        return Spec.from_json(_with(json.dumps(data), keys))

    def hashed(self) -> Spec:
        """The same with the SHA-256 of every file that it reads, and the version that is installed."""
        return Spec.from_json(locally(self._text, _native.hashed))

    def key(self) -> str:
        """The SHA-256 of the canonical JSON: the name of the run's record in a cache.

        It depends on the files only after `hashed`.
        """
        canonical = json.dumps(self.data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        data = self.data
        workload = data["workload"]
        name = workload.get("path") or workload.get("generator")
        return f"<Spec {data['stack']} {name} seed {data['seed']}>"


def _with(text: str, keys: dict[str, Any]) -> str:
    fields = {name: keys.pop(name) for name in FIELDS if name in keys}
    if fields:
        text = json.dumps({**json.loads(text), **fields})
    given = [(SHORT.get(key, key.replace("__", ".")), value_text(value)) for key, value in keys.items()]
    return _native.set(text, given)


def value_text(value: Any) -> str:
    """A value as a key of a specification reads it."""
    return repr(value) if isinstance(value, float) else str(value)


def locally(text: str, work: Any) -> str:
    """What `work` makes of the specification, of which it sees local files only; it returns JSON with a specification.

    URLs come back in the result in place of their local copies.
    """
    spec = json.loads(text)
    spec["workload"], urls = localised(spec["workload"])
    if not urls:
        return str(work(text))
    given = dict(spec.pop("files"))
    local_of = {url: local for local, url in urls.items()}
    spec["files"] = {local_of.get(name, name): value for name, value in given.items()}
    made = json.loads(work(json.dumps(spec)))
    inner = made.get("spec", made)
    inner["workload"]["path"] = urls[inner["workload"]["path"]]
    inner["files"] = {urls.get(name, name): value for name, value in inner["files"].items()}
    return json.dumps(made)
