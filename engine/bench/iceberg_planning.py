"""Planning a scan of a large Iceberg table, and by PyIceberg: seconds, and memory that stays small.

    python -m bench.iceberg_planning [--files N] [--manifests N] [--rounds N] [--json FILE]

Makes the metadata of a table in a temporary folder (no data: planning reads none): data files with
metrics of ten columns, over partitions of a day and a region, in manifests written by Tideline.
Both sides plan in a process of their own, which has opened the table before the clock starts, by
turns: everything, and one region of one day. Tideline's is also the memory of its process while it
counts the files one by one, as a rewrite that finds nothing to do does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.iceberg_many_files import ManyFiles
from bench.measurement import Claim, Limit, Series, close_report
from bench.quiet import wait_for_quiet
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.peer_environment import PeerEnvironment, prepare_iceberg_peer

MEMORY_BYTES_MAX = 200_000_000
FILTERS = {"everything": "true", "one partition": "day = '2026-01-05' and region = 'r3'"}
# A plan of a partition takes a fraction of a second: there it is enough to be about as fast.
WANTED: dict[str, dict[str, float]] = {
    "everything": {"faster_by": 1.0},
    "one partition": {"within": 1.5},
}
# What PyIceberg calls the same; it knows no constant.
PEER_FILTERS = {"true": "id >= 0"}


def main() -> int:
    """Measure, print, and say whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--manifests", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--plan", metavar="URI", help=argparse.SUPPRESS)
    parser.add_argument("--where", default="true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.plan:
        print(json.dumps(plan_once(wanted.plan, wanted.where)))
        return 0
    load = wait_for_quiet(0)
    with tempfile.TemporaryDirectory() as folder:
        table = ManyFiles(Path(folder) / "table", wanted.files, wanted.manifests)
        table.write()
        claims, limit = measure(table, prepare_iceberg_peer(), wanted.rounds)
    return close_report(claims, [limit], load_at_start=load, json_path=wanted.json)


def measure(table: ManyFiles, peer: PeerEnvironment, rounds: int) -> tuple[list[Claim], Limit]:
    """Both sides by turns, `rounds` times each filter."""
    claims, peak_bytes = [], 0
    for name, where in FILTERS.items():
        ours, theirs = Series("tideline"), Series("pyiceberg")
        for _ in range(rounds):
            own = _ours(table, where)
            other = _theirs(table, peer, where)
            if own["files"] != other["files"]:
                raise SystemExit(f"{where}: {own['files']} files, PyIceberg {other['files']}")
            ours.add(own["seconds"])
            theirs.add(other["seconds"])
            peak_bytes = max(peak_bytes, int(own["peak_bytes"]))
        title = f"plan {name} of {table.files:,} files"
        claims.append(Claim(title, ours, theirs, **WANTED[name]))
    return claims, Limit("memory of a process that plans", peak_bytes, MEMORY_BYTES_MAX)


def plan_once(uri: str, where: str) -> dict[str, float]:
    """Plan in this process, keeping no task."""
    table = IcebergTable.open(uri)
    condition = parse_filter(where)
    started = time.perf_counter()
    metadata = table.metadata
    files = sum(1 for _ in plan_files(table.io, metadata, metadata.snapshot(), condition))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "files": files, "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    line = next(name for name in status.splitlines() if name.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _ours(table: ManyFiles, where: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.iceberg_planning"]
    return _run([*command, "--plan", str(table.folder), "--where", where], dict(os.environ))


def _theirs(table: ManyFiles, peer: PeerEnvironment, where: str) -> dict[str, float]:
    script = Path(__file__).with_name("pyiceberg_planning.py")
    asked = PEER_FILTERS.get(where, where)
    arguments = [str(peer.python), str(script), str(table.metadata_file), asked]
    return _run(arguments, peer.process_environment())


def _run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
