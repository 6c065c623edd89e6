"""The flights table that `make run` leaves, of a fortnight."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tideline.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "flights"


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder: with logs that wait for a compaction, like that of the whole year."""
    folder = tmp_path_factory.mktemp("clone")
    example = folder / "examples" / "flights"
    example.mkdir(parents=True)
    shutil.copy(EXAMPLE / "laketable.yaml", example)
    _land(folder / "out" / "flights" / "landing")
    declared, state = str(example / "laketable.yaml"), str(folder / "out" / "flights" / "state")
    assert run(["run", "-f", declared, "--once", "--state", state]) == 0
    return folder / "out" / "flights" / "table"


def _land(folder: Path) -> None:
    sys.path.append(str(EXAMPLE))
    try:
        import make_landing
    finally:
        sys.path.remove(str(EXAMPLE))
    flights = make_landing.load_flights()
    early = flights[flights["scheduled_departure"] < "2013-01-15"]
    make_landing.write_landing(make_landing.feed_reports(early), folder)
