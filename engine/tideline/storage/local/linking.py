"""Copies on a local disk: a second name of the same file, or its bytes where links cannot be."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from tideline.storage.object_store import TEMPORARY_PREFIX


def link_or_copy(source: Path, target: Path) -> None:
    """Create or replace `target`, in a folder that exists; readers see it whole, or as before.

    Raises FileNotFoundError where `source` is not there, and OSError.
    """
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4()}")
    try:
        try:
            os.link(source, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            _copy(source, temporary)
        temporary.replace(target)
    finally:
        # A rename between two names of one file does nothing, and says that all is well.
        temporary.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
