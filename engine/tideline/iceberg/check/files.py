"""Are the files that metadata leads to there, as large as it says?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tideline.check_finding import Finding, Severity, error, note
from tideline.errors import UnsupportedTableError
from tideline.iceberg.check.inspection import Inspection
from tideline.iceberg.manifest.manifest_reading import in_parallel
from tideline.iceberg.services.reachable_file import (
    CONTENT_KINDS,
    FileKind,
    ReachableFile,
    statistics_files,
)
from tideline.wording import counted

NAME = "files"
ADVICE = "put it back from a copy, or roll back to a snapshot that reads"
_OUTSIDE = -1


def check_files(
    seen: Inspection, files: Iterable[ReachableFile], *, snapshot_id: int | None = None
) -> Iterator[Finding]:
    """Findings about files that branches and tags need, or of an older snapshot of this id."""
    outside = 0
    wanted = list(dict.fromkeys(files))
    for file, size_bytes in zip(
        wanted, in_parallel(lambda file: _size(seen, file), wanted), strict=True
    ):
        if size_bytes == _OUTSIDE:
            outside += 1
        elif size_bytes is None:
            yield _missing(file, snapshot_id)
        elif file.size_bytes is not None and file.size_bytes != size_bytes:
            message = f"has {size_bytes:,} bytes, the metadata says {file.size_bytes:,}"
            severity = Severity.ERROR if file.kind in CONTENT_KINDS else Severity.WARNING
            yield Finding(NAME, severity, message, path=file.location)
    if outside:
        message = f"{counted(outside, 'file')} outside of the places that are read: not looked for"
        yield note(NAME, message, advice="name their folders in TIDELINE_EXTRA_LOCATIONS")


def check_statistics(seen: Inspection) -> Iterator[Finding]:
    """Findings about statistics, which readers can do without."""
    for found in check_files(seen, statistics_files(seen.metadata)):
        yield Finding(NAME, Severity.WARNING, found.message, path=found.path)


def _size(seen: Inspection, file: ReachableFile) -> int | None:
    try:
        return seen.size_bytes(file.location)
    except UnsupportedTableError:
        return _OUTSIDE


def _missing(file: ReachableFile, snapshot_id: int | None) -> Finding:
    what = file.kind.value.removesuffix("s").replace("_", " ")
    if file.kind is FileKind.STATISTICS or snapshot_id is None:
        return error(NAME, f"a {what} is missing", path=file.location, advice=ADVICE)
    message = f"a {what} of snapshot {snapshot_id} is missing: reading as of then fails"
    advice = f"tideline iceberg expire --snapshot-id {snapshot_id}"
    return Finding(NAME, Severity.WARNING, message, path=file.location, advice=advice)
