"""Did a Flink job of Hudi write this table? It leaves what no other writer does. Pure.

Flink's index keeps in the job's state where each key is, and reads no file. So new keys are
appended to logs on top of base files, where an index that reads base files does not look.

1. A file id that is a bare UUID: other writers of rows put a number after it.
2. `ckp_meta` or `view_storage_conf` in `.hoodie/.aux/`, followed by the job's name if it has one.
   They stay when the job ends.

Source: Hudi's BucketAssigner, DeltaWriteProfile, CkpMetadata, ViewStorageProperties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tideline.hudi.table.file_group import split_path

AUXILIARY_FOLDER = ".hoodie/.aux"
_TRACES = ("ckp_meta", "view_storage_conf")
_BARE_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_flink_file_id(file_id: str) -> bool:
    """Whether a Flink job made the file group. A bootstrap names its file groups so, too."""
    return _BARE_UUID.fullmatch(file_id) is not None


def has_flink_evidence(paths: Iterable[str]) -> bool:
    """Whether a Flink job wrote to the table; of objects and folders in its auxiliary folder."""
    return any(split_path(path.rstrip("/"))[1].startswith(_TRACES) for path in paths)
