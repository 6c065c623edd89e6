"""`read` shows days and moments of years that Python does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.cli.main import run

DAYS = pa.array([2_932_897, -800_000, 0], pa.int32()).view(pa.date32())
MOMENTS = pa.array([253_402_300_800_000_000, -62_200_000_000_000_001, 0], pa.int64())
ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "day": DAYS,
        "at": MOMENTS.view(pa.timestamp("us", "UTC")),
        "inner": pa.StructArray.from_arrays([DAYS], ["day"]),
    }
)
SHOWN = [
    ("a", "+10000-01-01", "+10000-01-01T00:00:00+00:00"),
    ("b", "-0221-09-04", "-0002-12-17T14:13:19.999999+00:00"),
    ("c", "1970-01-01", "1970-01-01T00:00:00+00:00"),
]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("partition", [(), ("--partition-by", "day"), ("--partition-by", "at")])
def test_far_days_and_moments_are_printed(
    kind: str, partition: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri, source = str(tmp_path / "table"), tmp_path / "rows.parquet"
    pq.write_table(ROWS, source)
    assert run(["create", uri, "--record-key", "id", "--type", kind, *partition]) == 0
    for _ in range(2):
        here = ("--option", "tideline.engine.small=in_process")
        assert run(["write", uri, "--source", str(source), *here]) == 0
    capsys.readouterr()
    assert run(["read", uri, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sorted((row["id"], row["day"], row["at"]) for row in rows) == SHOWN
    assert all(row["inner"] == {"day": row["day"]} for row in rows)
    assert run(["read", uri]) == 0
    printed = capsys.readouterr().out
    for _, day, at in SHOWN:
        assert f"  {day}  " in printed
        assert f"  {at.replace('T', ' ')}  " in printed
