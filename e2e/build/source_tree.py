"""The tree of a commit, as `git archive` gives it: nothing of a work tree that is not committed."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path


class CommitMissingError(Exception):
    """The repository's history does not contain the commit; the message says what to do."""


def export_commit(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit below a folder that is there; each has the commit's time.

    Raises CommitMissingError.
    """
    git = ["git", "-C", str(repository), "archive", commit]
    archive = subprocess.run(git, capture_output=True)
    if archive.returncode != 0:
        raise CommitMissingError(
            f"commit {commit[:12]} is not in this clone: "
            f"git fetch --unshallow ({archive.stderr.decode().strip()})"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        # Debian 12's Python has no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
