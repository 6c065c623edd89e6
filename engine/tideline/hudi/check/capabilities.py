"""Is the table what it is taken for? Its capabilities against what is on disk.

1. A declared zone against the times of the newest instants' objects.
2. A bucket index that properties name against the file ids that readers see.
3. Operations that Tideline refuses on this table, each reason once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, error, note, warning
from tideline.hudi.capabilities.look import read_capabilities
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.table_capabilities import TableCapabilities
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.index.bucket_layout import KnownFrom, without_bucket
from tideline.hudi.table.table_config import INDEX_TYPE, PROPERTIES_PATH, TIMEZONE
from tideline.hudi.timeline.known_zone import ZoneBasis, doubt_of

NAME = "capabilities"


def check_capabilities(seen: Inspection) -> Iterator[Finding]:
    """Findings about what the table is taken for."""
    capabilities = read_capabilities(seen.table, seen.timeline)
    yield from _zone(seen, capabilities)
    yield from _buckets(seen, capabilities)
    yield from _refusals(capabilities)


def _zone(seen: Inspection, capabilities: TableCapabilities) -> Iterator[Finding]:
    known = capabilities.zone
    if known is None or known.basis is not ZoneBasis.DECLARED:
        return
    doubt = doubt_of(known.zone, seen.timeline.made_ms)
    if doubt is not None:
        yield warning(
            NAME,
            f"{TIMEZONE} may be a mistake: {doubt}",
            path=PROPERTIES_PATH,
            advice="tideline declare --timezone ZONE",
        )


def _buckets(seen: Inspection, capabilities: TableCapabilities) -> Iterator[Finding]:
    layout = capabilities.index.buckets
    if layout is None or layout.known_from is not KnownFrom.PROPERTIES:
        return
    groups = [
        file_slice.group
        for partition in seen.view.partitions
        for file_slice in seen.view.latest_slices(partition)
    ]
    strangers = without_bucket(groups)
    if strangers:
        yield error(
            NAME,
            f"{INDEX_TYPE} says that rows lie in buckets, and this file group is in none, or in "
            "one that another has; keys in it are stored again when they are written",
            path=str(strangers[0]),
        )


def _refusals(capabilities: TableCapabilities) -> Iterator[Finding]:
    by_reason: dict[str, list[Permission]] = {}
    for operation, refusal in capabilities.refusals.items():
        if refusal.declare == TIMEZONE:
            continue  # reported by the timeline's check
        if operation is Permission.CLUSTERING and capabilities.index.buckets is not None:
            continue  # so it is with every table of that index
        by_reason.setdefault(refusal.reason, []).append(operation)
    for reason, operations in by_reason.items():
        names = ", ".join(permission.sentence for permission in operations)
        yield note(NAME, f"Tideline refuses here {names}: {reason}")
