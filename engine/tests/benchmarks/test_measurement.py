"""The benches' own parts: what counts as reached, the input, and the memory of workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.data import PARTITIONS, prepare_input
from bench.measurement import Claim, Limit, Series, TimeLimit, close_report
from bench.process_memory import watch_processes
from tideline.testing.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("ours", "peer", "wanted", "holds"),
    [
        (2.0, 12.0, {"faster_by": 6}, True),
        (2.1, 12.0, {"faster_by": 6}, False),
        (5.7, 5.0, {"within": 1.15}, True),
        (5.8, 5.0, {"within": 1.15}, False),
    ],
)
def test_a_claim_compares_medians(
    ours: float, peer: float, wanted: dict[str, float], holds: bool
) -> None:
    our_series = Series("ours", seconds=[ours, ours, 1_000.0])
    peer_series = Series("peer", seconds=[0.001, peer, peer])
    assert Claim("speed", our_series, peer_series, **wanted).holds is holds


def test_a_time_limit_is_held_against_the_median(capsys: pytest.CaptureFixture[str]) -> None:
    within = TimeLimit("start to exit", Series("ours", [1.0, 1.9, 9.0]), 2)
    beyond = TimeLimit("start to exit", Series("ours", [1.0, 2.1, 2.2]), 2)
    assert close_report([], [within], load_at_start=0.1) == 0
    assert close_report([], [within, beyond], load_at_start=0.1) == 1
    assert "2.1 s" in capsys.readouterr().out


def test_figures_of_a_busy_machine_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    fast = Claim("speed", Series("ours", [1.0]), Series("peer", [9.0]), faster_by=6)
    slow = Claim("speed", Series("ours", [1.0]), Series("peer", [5.0]), faster_by=6)
    assert close_report([fast], [], load_at_start=0.1) == 0
    assert close_report([slow], [], load_at_start=0.1) == 1
    assert "do not count" not in capsys.readouterr().out
    assert close_report([fast], [], load_at_start=2.5) == 3
    assert "the machine was busy (load 2.50 at the start)" in capsys.readouterr().out


def test_a_limit_that_nothing_was_measured_for_does_not_hold() -> None:
    assert Limit("memory", bytes_seen=5, bytes_max=10).holds
    assert not Limit("memory", bytes_seen=10, bytes_max=10).holds
    assert not Limit("memory", bytes_seen=0, bytes_max=10).holds


def test_a_batch_updates_a_tenth_and_adds_a_hundredth(tmp_path: Path) -> None:
    prepared = prepare_input(tmp_path, rows=10_000, batches=2)
    base = pq.read_table(prepared.base)
    assert base.num_columns == 11
    assert set(pc.unique(base["region"]).to_pylist()) == set(PARTITIONS)
    where = dict(zip(base["order_id"].to_pylist(), base["region"].to_pylist(), strict=True))
    assert len(where) == 10_000
    for path in prepared.changes:
        batch = pq.read_table(path)
        keys = batch["order_id"].to_pylist()
        assert len(set(keys)) == prepared.changed_rows == 1_100
        known = [key for key in keys if key in where]
        assert len(known) == 1_000
        regions = dict(zip(keys, batch["region"].to_pylist(), strict=True))
        assert all(where[key] == regions[key] for key in known)
        assert pc.min(batch["updated_at"]).as_py() > pc.min(base["updated_at"]).as_py()


def test_the_peaks_of_driver_and_worker_are_seen_and_no_others(
    tmp_path: Path,
) -> None:
    module = tmp_path / "tideline" / "spark" / "session" / "python_daemon.py"
    module.parent.mkdir(parents=True)
    for package in tuple(module.parents)[:3]:
        (package / "__init__.py").touch()
    module.write_text("import sys; sys.stdin.readline(); x = b'x' * (200 << 20); sys.stdin.read()")
    settings = "spark.python.daemon.module=tideline.spark.session.python_daemon"
    larger = "import sys; x = b'x' * (500 << 20); sys.stdin.read()"
    worker = _start([sys.executable, "-m", "tideline.spark.session.python_daemon"], tmp_path)
    other = _start([sys.executable, "-c", larger, settings], tmp_path)
    try:
        with watch_processes(os.getpid()) as peaks:
            print("go", file=worker.stdin, flush=True)
            _wait_until_large(worker.pid, 200 << 20)
            _wait_until_large(other.pid, 500 << 20)
    finally:
        worker.communicate()
        other.communicate()
    assert 200 << 20 < peaks.bytes_by_pid[worker.pid] < 400 << 20
    # Spark may run in this process as well, with workers of its own.
    assert {os.getpid(), worker.pid} <= set(peaks.bytes_by_pid)
    assert other.pid not in peaks.bytes_by_pid


def _start(command: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=folder)


def _wait_until_large(pid: int, bytes_min: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        pages = int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
        if pages * 4096 > bytes_min:
            time.sleep(0.3)
            return
        time.sleep(0.02)
