"""Where `tideline run` keeps status between runs: one JSON file per table in its state folder.

All of it can be computed again. A missing, damaged or foreign file is an empty status.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tideline_operator.resources.parsing import parse_stored, to_json_object
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus


def read_status(folder: Path, table: ResolvedTable) -> LakeTableStatus:
    """The status of the table, empty when there is none that can be used."""
    try:
        content = json.loads(_path(folder, table).read_bytes())
    except (OSError, ValueError):
        return LakeTableStatus()
    # A status of the same name about another place does not apply to this one.
    if not isinstance(content, dict) or content.get("location") != table.address:
        return LakeTableStatus()
    return parse_stored(LakeTableStatus, content.get("status")) or LakeTableStatus()


def write_status(folder: Path, table: ResolvedTable, status: LakeTableStatus) -> None:
    """Replace the file atomically; a reader sees the old or the new status."""
    content = {"location": table.address, "status": to_json_object(status)}
    path = _path(folder, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    temporary.replace(path)


def _path(folder: Path, table: ResolvedTable) -> Path:
    metadata = table.resource.metadata
    return folder / f"{metadata.namespace}.{metadata.name}.status.json"
