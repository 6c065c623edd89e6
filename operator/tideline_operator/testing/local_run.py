"""`tideline run --once` over resource files in a folder, and a small table that a source feeds."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tideline.cli.main import run

KEYED_VALUES = """
ordering: [ts]
schema:
- {name: id, type: long}
- {name: ts, type: long}
- {name: v, type: string}
"""
"""Of a spec: the columns of `tideline.testing.topic_feed.values`."""
_WAIT_S = 400.0
_TABLE = """\
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {{name: {name}}}
spec:
  location: {location}
  recordKey: [id]
{spec}
  ingest:
  - name: {name}
    source: {source}
    trigger: {trigger}
"""


def run_process(folder: Path, file: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run in a process of its own, in the folder of the file."""
    return subprocess.run(
        [sys.executable, "-m", "tideline", "run", "-f", file, "--once", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=_WAIT_S,
    )


def run_apart(folder: Path, file: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """The events of such a run, which ends with this code."""
    done = run_process(folder, file, "--json", *options)
    assert done.returncode == code, done.stderr + done.stdout
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run_here(place: Path, *options: str) -> int:
    """The exit code of a run in this process over a file or a folder, its state beside them."""
    folder = place if place.is_dir() else place.parent
    state = str(folder / "state")
    return run(["run", "-f", str(place), "--once", "--state", state, *options])


def declare_table(
    folder: Path,
    source: str,
    spec: str = "",
    *,
    name: str = "orders",
    location: str = "table",
    trigger: str = "{every: 1s}",
) -> Path:
    """A file with a LakeTable whose key is `id` and which one ingest of its name feeds; `spec` are
    more lines of its spec."""
    text = _TABLE.format(
        name=name,
        location=location,
        spec=textwrap.indent(spec.strip("\n"), "  "),
        source=source,
        trigger=trigger,
    )
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path
