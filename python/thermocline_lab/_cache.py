"""Records by the hash of their specification, in a folder or an object store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Optional

from ._trace import is_url


class Cache:
    """Records under ``XX/HASH.json``. A record is written whole or not at all, so that a task may be repeated."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._store: Any = None

    def get(self, key: str) -> Optional[str]:
        """The record called `key`, if it is there."""
        try:
            if is_url(self.place):
                return bytes(self._objects().get(_name(key)).bytes()).decode()
            return (Path(self.place) / _name(key)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put(self, key: str, record: str) -> None:
        """Stores the record called `key`."""
        if is_url(self.place):
            self._objects().put(_name(key), record.encode())
            return
        path = Path(self.place) / _name(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as part:
            part.write(record)
        os.replace(part.name, path)

    def _objects(self) -> Any:
        if self._store is None:
            from obstore.store import from_url

            self._store = from_url(self.place)
        return self._store


def _name(key: str) -> str:
    return f"{key[:2]}/{key}.json"
