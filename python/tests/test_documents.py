"""Examples of the documents run as they are printed."""

import ast
import json
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


def test_the_notebook_shows_a_table_and_a_chart():
    notebook = json.loads((ROOT / "python/examples/indirection-unit.ipynb").read_text())
    names: dict[str, object] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            code = ast.parse("".join(cell["source"]))
            last = ast.Expression(code.body.pop().value)
            exec(compile(code, "cell", "exec"), names)
            shown.append(eval(compile(last, "cell", "eval"), names))
    figure, sweep = shown
    for theirs, ours in zip(figure["theirs"], figure["ours"]):
        assert abs(ours / theirs - 1) < 0.02
    assert len(sweep) == 5 and "<iframe" in sweep._repr_html_()


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
