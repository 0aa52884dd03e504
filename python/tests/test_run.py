"""Runs, records, errors, interrupts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import thermocline_lab as tl


def test_a_record_is_its_json(small):
    record = tl.run("log:zn540", "zipf:0.99", placement="auto", utilisation=0.8, **small)
    data = json.loads(record.json())
    assert data["schema"] == "thermocline.run/1"
    assert record.waf == data["waf"] > 0
    assert record.life.p50 == data["life"]["years_p50"]
    assert record.lasting.over == data["lasting"]["over"]
    assert record.spec.data["placement"] == "auto"
    with pytest.raises(AttributeError, match="there are .*waf"):
        record.colour


def test_causes_and_series_are_tables_that_add_up(small):
    record = tl.run("log:p5316", "uniform", **small)
    causes = list(record.causes.rows())
    media = [row["bytes"] for row in causes if row["tier"] == "media"]
    assert sum(media) == record.media_bytes_written.total
    shares = sum(row["share_of_host"] for row in causes if row["tier"] == "media")
    assert shares == pytest.approx(record.waf)
    assert record.series["host_bytes"] == sorted(record.series["host_bytes"])
    assert len(record.series) == len(record.data["series"]) > 1


def test_equal_specifications_give_equal_figures(small):
    first = tl.run("raw:p5316", "zipf:0.99", seed=5, **small)
    again = tl.run(tl.Spec.from_json(first.json()))
    assert first.row() == again.row() and first.series == again.series
    assert tl.run(first.spec, seed=6).row() != first.row()


def test_notebooks_show_our_charts(small):
    shown = tl.run("raw:p5316", "uniform", **small)._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "&lt;svg" in shown and "<svg" not in shown


def test_a_report_is_a_page(small, tmp_path):
    page = tl.run("raw:p5316", "uniform", **small).report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page
    assert page.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: tl.run("raw:none", "uniform"), tl.SettingsError, "none"),
        (lambda: tl.run("raw:p5316", "unifrom"), tl.SettingsError, "unifrom"),
        (lambda: tl.run("raw:p5316", "uniform", colour=1), tl.SettingsError, "colour"),
        (lambda: tl.run("raw:p5316", "uniform", utilisation=2), tl.SettingsError, "utilisation"),
        (lambda: tl.run("raw:p5316", tl.Trace("none.trace")), tl.TraceError, "none.trace"),
        (lambda: tl.analyze(tl.Trace("none.trace")), tl.TraceError, "none.trace"),
        (lambda: tl.Trace("none.trace", passes=2), tl.SettingsError, "passes"),
        (lambda: tl.reproduce("none"), tl.SettingsError, "experiment"),
        (lambda: tl.Spec.from_json("{}"), tl.SettingsError, "none"),
    ],
)
def test_errors_have_a_kind_and_name_the_fault(call, kind, text):
    with pytest.raises(kind, match=text) as error:
        call()
    assert isinstance(error.value, tl.Error)


def test_the_other_threads_run_meanwhile():
    script = (
        "import threading, thermocline_lab as tl\n"
        "counted, ended = 0, threading.Event()\n"
        "def work():\n"
        "    tl.run('raw:ideal', 'uniform', span='64MiB', writes=3_000_000)\n"
        "    ended.set()\n"
        "threading.Thread(target=work).start()\n"
        "while not ended.wait(0.001): counted += 1\n"
        "assert counted > 10, counted\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_an_interrupt_ends_a_run():
    script = (
        "import thermocline_lab as tl\n"
        "print('begin', flush=True)\n"
        "try: tl.run('raw:ideal', 'uniform', span='1GiB', drive_writes=100_000)\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begin\n"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    # The run itself would take hours.
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n" and child.returncode == 0


def test_whatif_has_records_and_reasons():
    tried = tl.whatif("pm9d3", tl.Generator("hotcold:10:90", span_bytes=64 << 20, drive_writes=2), jobs=2)
    assert tried[0].option == "as it is" and tried[0].record.waf > 0
    assert all((one.record is None) != (one.reason is None) for one in tried)
    assert any(one.reason for one in tried)


def test_an_experiment_has_published_figures_beside_ours():
    table = tl.reproduce("snia-life")
    assert table.columns == ("what", "theirs", "ours") and len(table) > 0
