"""`make stream`, for some seconds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.testing.kafka_broker import build
from tideline.testing.maven_jars import require_jars

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "kafka" / "stream.py"


@pytest.mark.kafka
@pytest.mark.slow
def test_a_topic_becomes_a_table_that_is_equal_to_it(tmp_path: Path) -> None:
    require_jars(build)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "stream"), "--seconds", "8"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    counts = [
        tuple(int(text.replace(",", "")) for text in found.groups())
        for line in lines
        if (found := re.match(r"([\d,]+) records, ([\d,]+) wait, ([\d,]+) rows", line))
    ]
    records, waiting, rows = counts[-1]
    assert (records, waiting) == (1_600, 0)
    # Of ten records six are new orders, and one of them is deleted.
    assert rows == 800
    assert lines[-1] == "800 rows compared: all are equal"
