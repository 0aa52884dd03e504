"""Tables and specifications come back as they were."""

import polars
import pyarrow
import pytest
import thermocline_lab as tl
from hypothesis import given, settings
from hypothesis import strategies as st

CELLS = [
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
]


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 8))
    names = draw(st.lists(st.text("abcdef_", min_size=1), min_size=1, max_size=5, unique=True))
    columns = {}
    for name in names:
        cell = draw(st.sampled_from(CELLS))
        columns[name] = draw(st.lists(st.none() | cell, min_size=rows, max_size=rows))
    return tl.Table(columns)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_tables_survive_arrow_and_polars(table):
    assert tl.Table.from_arrow(pyarrow.table(table)) == table
    assert tl.Table.from_arrow(table.pl()) == table
    assert tl.Table.from_rows(table.rows()) == table or len(table) == 0


@given(tables())
@settings(max_examples=20, deadline=None)
def test_tables_survive_parquet(table):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        table.parquet(f"{folder}/t.parquet")
        assert tl.Table.from_parquet(f"{folder}/t.parquet") == table
        assert polars.read_parquet(f"{folder}/t.parquet").columns == list(table.columns)


KEYS = {
    "seed": st.integers(0, 2**64 - 1),
    "utilisation": st.floats(0.01, 1.0),
    "queue_depth": st.integers(1, 65536),
    "op": st.floats(0.01, 1.0),
    "span": st.sampled_from(["16MiB", 1 << 24, "1GiB"]),
    "read_share": st.floats(0.0, 0.9),
    "victim": st.sampled_from(["greedy", "fifo"]),
    "prefill": st.sampled_from(["sequential", "none"]),
    "daily_writes_bytes": st.integers(1, 2**60),
}


@given(st.fixed_dictionaries({}, optional=KEYS), st.sampled_from(["raw:p5316", "log:zn540"]))
@settings(max_examples=100, deadline=None)
def test_specifications_survive_json(keys, stack):
    spec = tl.Spec(stack, "zipf:0.99", **keys)
    again = tl.Spec.from_json(spec.json())
    assert again == spec and again.key() == spec.key()
    assert spec.data["seed"] == keys.get("seed", 1)
    assert spec.data["utilisation"] == keys.get("utilisation", 1.0)
    assert spec.replace() == spec and spec.replace(stack="raw:ideal") != spec


def test_frames_of_every_library_have_the_columns():
    table = tl.Table({"op": [0.07, 0.15], "waf": [3, None], "stack": ["a", "b"]})
    assert table.pl().to_dict(as_series=False) == {"op": [0.07, 0.15], "waf": [3, None], "stack": ["a", "b"]}
    assert table.arrow().to_pydict() == table.pl().to_dict(as_series=False)
    assert list(table.df().columns) == ["op", "waf", "stack"] and table.df()["waf"][0] == 3


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="equal lengths"):
        tl.Table({"a": [1], "b": []})
    with pytest.raises(TypeError, match="'a' mixes"):
        tl.Table({"a": [1, "x"]})
