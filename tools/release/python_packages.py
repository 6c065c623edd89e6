"""The wheel and the sdist, by the build backend that is in the environment.

hatchling writes files in the order of their names, with the time that SOURCE_DATE_EPOCH says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.release.release import Release, ReleaseError


def build_python_packages(release: Release, source: Path) -> list[Path]:
    """The files, in the release's folder."""
    before = set(release.folder.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(release.folder)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch_s)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ReleaseError(f"hatchling: {done.stderr.strip()[-2000:]}")
    return sorted(set(release.folder.iterdir()) - before)
