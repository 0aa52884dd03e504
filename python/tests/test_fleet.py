"""Fleets from files, frames and Parquet have one answer."""

import datetime

import polars
import pytest
import thermocline_lab as tl

DAY = 86400.0


def rows():
    """Two classes of eight drives with a history of four moments."""
    columns = {name: [] for name in ("serial", "model", "class", "time", "host_bytes", "used_percent", "power_on_hours")}
    for drive in range(16):
        rate = 0.12 if drive % 2 else 0.01  # Per cent a day.
        for moment in range(4):
            days = 600 + 100 * moment
            values = (f"s{drive}", "M", "busy" if drive % 2 else "calm", 1.7e9 + DAY * days)
            values += (1e12 * rate * days, float(int(rate * days)), 24 * days)
            for column, value in zip(columns.values(), values):
                column.append(value)
    return tl.Table(columns)


def test_a_file_a_table_a_frame_and_parquet_have_one_answer(tmp_path):
    table = rows()
    answer = tl.fleet(table, price=300)
    table.pl().write_csv(tmp_path / "rows.csv")
    table.parquet(tmp_path / "rows.parquet")
    dates = [datetime.datetime.fromtimestamp(time, datetime.timezone.utc) for time in table["time"]]
    frame = table.pl().with_columns(polars.Series("time", dates))
    for same in (tmp_path / "rows.csv", tl.Table.from_parquet(tmp_path / "rows.parquet"), table.pl(), frame, [table]):
        assert tl.fleet(same, price=300) == answer
    worn = {row["name"]: row["worn_out_likely"] for row in answer.classes.rows()}
    assert worn["busy"] >= 7 and worn["calm"] < 1, answer.answer
    assert len(answer.drives) == 16 and len(answer.curve) > 1 and "busy" in answer._repr_html_()
    answer.drives.parquet(tmp_path / "drives.parquet")
    assert polars.read_parquet(tmp_path / "drives.parquet").height == 16


def test_traces_of_a_class_tell_what_would_mend_it():
    answer = tl.fleet(rows(), traces={"busy": "postgres-tpcc"}, loops=1)
    mends = answer.mends
    assert set(mends["class"]) == {"busy"} and any(share is not None for share in mends["factor_likely"])


def test_rows_that_cannot_be_used_are_named():
    with pytest.raises(tl.SettingsError, match="table 0"):
        tl.fleet(tl.Table({"serial": ["a"], "model": ["M"]}))
