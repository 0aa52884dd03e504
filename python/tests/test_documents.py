"""Examples of the documents run as they are printed."""

import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "docs/use/PYTHON.md"])
def test_the_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    assert "requests" in capsys.readouterr().out


def test_a_wheel_has_the_extras_and_the_version_of_the_workspace(tmp_path, monkeypatch):
    import maturin
    import thermocline_lab as tl

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    name = maturin.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = (tmp_path / name / "METADATA").read_text()
    assert "Name: thermocline-lab\n" in metadata
    assert f"Version: {tl.Spec('raw:ideal', 'uniform').data['version']}\n" in metadata
    for extra in ("polars", "pandas", "parquet", "ray", "s3"):
        assert f"Provides-Extra: {extra}\n" in metadata, metadata
    assert (ROOT / "python/thermocline_lab/py.typed").exists()
