"""Fixtures that several files use."""

import pytest


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    """Copies of remote traces go to the folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


SMALL = {"span": "64MiB", "writes": 10_000}


@pytest.fixture
def small():
    """Keys of a run that takes milliseconds."""
    return dict(SMALL)
