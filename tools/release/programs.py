"""The programs of a release, from the cache: crane, cosign, syft, operator-verify, Helm."""

from __future__ import annotations

import subprocess

from e2e.build.versions import tools_folder
from tools.release.release import ReleaseError


def run_program(name: str, *arguments: str, given: str | None = None) -> str:
    """What a program prints; `given` is what it reads. Raises ReleaseError with its message when it
    fails."""
    program = tools_folder() / name
    if not program.exists():
        raise ReleaseError(f"{name} is not built: make release-tools")
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        input=given,
    )
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()[-2000:]
        raise ReleaseError(f"{name} {arguments[0]} failed: {message}")
    return done.stdout
