"""Faults in what Hudi tables are published as."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_PUBLICATION = "engine/tideline/publication"
_TESTS = "engine/tests/publication"

PUBLICATION_FAULTS = (
    Fault(
        "a clean deletes files that published snapshots need",
        f"{_PUBLICATION}/follow.py",
        "    drop_snapshots(place, needing)\n",
        "    drop_snapshots(place, needing if len(needing) > 99 else ())\n",
        (f"{_TESTS}/test_publish.py", f"{_TESTS}/test_publish_follows.py"),
    ),
    Fault(
        "what a catalog no longer has counts as given up",
        f"{_PUBLICATION}/presence.py",
        "    if not found and place is not None:\n        refuse_lost(table, place)\n",
        "",
        (f"{_TESTS}/test_publish_in_catalog.py",),
    ),
    Fault(
        "another table of the catalog is taken for the publication",
        f"{_PUBLICATION}/presence.py",
        "    return is_here and OWNER in metadata.properties\n",
        "    return OWNER in metadata.properties or is_here\n",
        (f"{_TESTS}/test_publish_in_catalog.py",),
    ),
    Fault(
        "a publication moves to another catalog and leaves its snapshots behind",
        f"{_PUBLICATION}/published_table.py",
        "        PublishedTable(table, place).load()\n        table.properties.update",
        "        table.properties.update",
        (f"{_TESTS}/test_publish_in_catalog.py",),
    ),
    Fault(
        "a row that a log deletes stays published",
        f"{_PUBLICATION}/merged_slices.py",
        "        if not len(positions):\n            return None\n",
        "        if not len(positions) or merged.file_slice.size_bytes:\n            return None\n",
        (f"{_TESTS}/test_publish_merged.py",),
    ),
    Fault(
        "logs of a slice that commits wrote to again are not read again",
        f"{_PUBLICATION}/merged_slices.py",
        '                parts = [f"{file.path} {file.size_bytes}" for file in file_slice.files]\n'
        "                parts += sorted("
        "{str(instant) for instant in blocks.select_blocks().instants})\n",
        "                parts = [str(file_slice.base_file), str(bool(blocks))]\n",
        (f"{_TESTS}/test_publish_merged.py",),
    ),
    Fault(
        "files of a publication's own stay when their snapshots go",
        f"{_PUBLICATION}/expiry.py",
        '            if f"{location}/{info.path}" in dropped or info.modified_ms < old_ms\n',
        "            if info.modified_ms < old_ms\n",
        (f"{_TESTS}/test_publish_merged.py",),
    ),
    Fault(
        "a table that is deleted leaves its publication when it runs out of time",
        f"{_PUBLICATION}/published_files.py",
        "        return (*self.merged, *self.others, *self.versions)\n",
        "        return (*self.versions, *self.others, *self.merged)\n",
        ("operator/tests/reading/test_table_removal.py",),
    ),
    Fault(
        "an Iceberg table of another program goes with the Hudi table in its folder",
        f"{_PUBLICATION}/published_files.py",
        "        return found if OWNER in metadata.properties else cls()\n",
        "        return found if OWNER or metadata.properties else cls()\n",
        ("operator/tests/reading/test_table_removal.py",),
    ),
    Fault(
        "a commit that completes late is not published",
        f"{_PUBLICATION}/difference.py",
        "            if str(instant.time) not in published and not",
        '            if str(instant.time) > max(published, default="") and not',
        (f"{_TESTS}/test_publish_after_archival.py",),
    ),
    Fault(
        "commits that were archived before a publication stay unpublished",
        f"{_PUBLICATION}/difference.py",
        "bool(settled_until) and (not timeline.has_archive or start",
        "bool(settled_until) or (not timeline.has_archive or start",
        (f"{_TESTS}/test_publish_after_archival.py",),
    ),
    Fault(
        "a write that was pending at a publication is archived unpublished",
        "engine/tideline/hudi/timeline/active.py",
        "        first = self.writes().pending().first() or self.last()\n",
        "        first = self.last()\n",
        (f"{_TESTS}/test_publish_after_archival.py",),
    ),
)
