"""Can the log files of the newest slices be read, block by block?

Damaged blocks are skipped by readers, here as in Hudi, so what they held is lost without an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, error, warning
from tideline.errors import ObjectNotFoundError, TidelineError
from tideline.formats.log_block import BlockKind, read_frames
from tideline.hudi.check.inspection import Inspection
from tideline.wording import counted

NAME = "logs"


def check_log_files(seen: Inspection) -> Iterator[Finding]:
    """Findings about frames; contents are not read."""
    store = seen.table.store
    for log in seen.log_files():
        path = log.path

        def read_range(offset: int, length: int, path: str = path) -> bytes:
            return store.get_range(path, offset=offset, length=length)

        try:
            frames = read_frames(read_range, log.size_bytes, path=path)
        except ObjectNotFoundError:
            continue  # compacted and cleaned since it was listed
        except TidelineError as broken:
            yield error(NAME, f"log file cannot be read: {broken.message}", path=path)
            continue
        damaged = sum(frame.kind is BlockKind.CORRUPT for frame in frames)
        if damaged:
            yield warning(
                NAME,
                f"{counted(damaged, 'damaged block')}, which readers skip "
                "and a compaction leaves behind",
                path=path,
                instant=log.instant,
                advice="tideline execute compaction",
            )
