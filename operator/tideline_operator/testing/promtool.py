"""promtool, which evaluates alerting rules as a Prometheus does: the machine's own, or Debian's.

Debian's package is taken apart in the cache, and not installed: it would start a server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tideline.cache_directory import cache_directory

_PACKAGE = "prometheus"


@cache
def promtool() -> Path | None:
    """The program; None where there is none and Debian's package cannot be had."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    kept = cache_directory() / "prometheus"
    program = kept / "usr" / "bin" / "promtool"
    if not program.is_file():
        try:
            _unpack(kept)
        except (OSError, subprocess.CalledProcessError):
            return None
    return program if program.is_file() else None


def _unpack(kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        _download(folder)
        (package,) = Path(folder).glob("*.deb")
        _run(["dpkg-deb", "-x", str(package), "unpacked"], folder)
        # Another test process may be first.
        if not kept.exists():
            (Path(folder) / "unpacked").replace(kept)


def _download(folder: str) -> None:
    download = ["apt-get", "download", "-qq", _PACKAGE]
    try:
        _run(download, folder)
    except subprocess.CalledProcessError:
        # A fresh machine has no lists of packages yet.
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        _run([*as_root, "apt-get", "update", "-qq"], folder)
        _run(download, folder)


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
