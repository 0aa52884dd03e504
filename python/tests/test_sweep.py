"""Sweeps on this machine, and their cache."""

import thermocline_lab as tl


def test_every_combination_has_a_row_with_the_figures_of_its_run(small):
    trace = tl.Trace("cassandra-ycsb-a", loops=1)
    table = tl.sweep(["raw:pm9d3", "log:pm9d3"], ["zipf:0.99"], op=[0.07, 0.28], seed=range(2), **small)
    assert table.shape[0] == 8 and table["seed"][:3] == [0, 1, 0]
    row = list(table.rows())[5]
    alone = tl.run("log:pm9d3", "zipf:0.99", op=0.07, seed=1, **small)
    assert {name: row[name] for name in alone.row()} == alone.row()
    assert row["key"] == alone.spec.key() and table.record(5).row() == alone.row()
    traced = tl.sweep("raw:pm9d3", [trace, "uniform"], seed=1)
    assert traced["workload"] == ["cassandra-ycsb-a", "uniform"] and traced["error"] == [None, None]
    assert table.pl().height == 8


def test_threads_and_order_change_nothing(small):
    one = tl.sweep("log:p5316", "uniform", seed=range(4), jobs=1, **small)
    assert one == tl.sweep("log:p5316", "uniform", seed=range(4), jobs=3, **small)


def test_a_run_that_cannot_be_made_is_an_error_in_its_row(small):
    table = tl.sweep(["raw:p5316", "raw:none"], "uniform", **small)
    assert table["error"][0] is None and "none" in table["error"][1]
    assert table["waf"][0] > 0 and table["waf"][1] is None


def test_a_repeated_run_is_a_look_up(small, tmp_path, monkeypatch):
    table = tl.sweep("raw:p5316", "uniform", seed=range(3), cache=tmp_path, **small)
    assert len(list(tmp_path.glob("*/*.json"))) == 3

    def nothing_runs(*_):
        raise AssertionError("a run was made")

    monkeypatch.setattr("thermocline_lab._native.run", nothing_runs)
    assert tl.sweep("raw:p5316", "uniform", seed=range(3), cache=tmp_path, **small) == table
    assert table.record(2).spec.data["seed"] == 2


def test_the_cache_may_be_a_store(small, tmp_path):
    url = f"file://{tmp_path}/store"
    (tmp_path / "store").mkdir()
    table = tl.sweep("raw:p5316", "uniform", seed=range(2), cache=url, **small)
    assert len(list(tmp_path.glob("store/*/*.json"))) == 2
    assert tl.sweep("raw:p5316", "uniform", seed=range(2), cache=url, **small) == table


def test_one_or_two_keys_are_drawn(small):
    table = tl.sweep("raw:pm9d3", "uniform", op=[0.1, 0.3], seed=[1, 2], **small)
    assert "&lt;table" in table._repr_html_()
    assert "&lt;svg" in tl.sweep("raw:pm9d3", "uniform", op=[0.1, 0.3], **small)._repr_html_()
