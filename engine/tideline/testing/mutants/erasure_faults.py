"""Faults in deletes by condition, in keys that stored rows decide, and in erasures."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_WRITE = "engine/tideline/hudi/write"
_VERBS = ("engine/tests/spark/write/test_table_verbs.py",)
_SPELLING = ("engine/tests/hudi/write/test_stored_spelling.py",)
_ERASURE = "engine/tests/erasure"

ERASURE_FAULTS = (
    Fault(
        "rows that are not found by their keys stay, without a word",
        f"{_WRITE}/write_by_location.py",
        "        matched.require_found(profile.total_updates, table.uri)\n",
        "        matched.require_found(matched.count, table.uri)\n",
        _VERBS,
    ),
    Fault(
        "copies of a key stay in a file of which a log deletes one",
        f"{_WRITE}/write_by_location.py",
        "        matched.require_deleted(sum(stat.num_deletes for stat in stats), table.uri)\n",
        "        matched.require_deleted(matched.count, table.uri)\n",
        _VERBS,
    ),
    Fault(
        "a row that changed after it matched is deleted",
        f"{_WRITE}/transaction.py",
        "            TransactionStart.of(timeline) if matched is None else matched.seen,\n",
        "            TransactionStart.of(timeline),\n",
        _VERBS,
    ),
    Fault(
        "both spellings of times in one table are taken for one",
        f"{_WRITE}/stored_spelling.py",
        "    if len(seen) > 1:\n",
        "    if len(seen) > 2:\n",
        _SPELLING,
    ),
    Fault(
        "numbers and texts of times in one table's paths are taken for one",
        f"{_WRITE}/stored_spelling.py",
        "    if numbers and times:\n",
        "    if numbers and times and not is_time:\n",
        _SPELLING,
    ),
    Fault(
        "a key column widens, and a row has another key",
        f"{_WRITE}/key_types.py",
        "    if widens_to(stored, given):\n        return False\n",
        "    if widens_to(stored, given):\n        return True\n",
        ("engine/tests/hudi/write/test_key_types.py",),
    ),
    Fault(
        "an erasure leaves bounds of files that were removed before",
        "engine/tideline/erasure/iceberg_rows.py",
        "            drops_old_bounds=True,\n",
        "            drops_old_bounds=False,\n",
        (f"{_ERASURE}/test_erase_iceberg_interop.py",),
    ),
    Fault(
        "a manifest gives bounds of a file that its commit removed",
        "engine/tideline/iceberg/commit/manifest_filter.py",
        "        file = entry.data_file.without_bounds()\n",
        "        file = entry.data_file\n",
        (f"{_ERASURE}/test_erase_iceberg_interop.py", f"{_ERASURE}/test_erase.py"),
    ),
    Fault(
        "the proof passes over what a publication wrote before it died",
        "engine/tideline/publication/merged_slices.py",
        '    if not (path.startswith(f"{MERGED}/") and path.endswith(_ROWS)):\n',
        "    if path.startswith(MERGED) or not path.endswith(_ROWS):\n",
        (f"{_ERASURE}/test_erase_published.py",),
    ),
    Fault(
        "files of a publication under way are deleted, as no snapshot lists them yet",
        "engine/tideline/publication/expiry.py",
        "    old_ms = place.table.clock.now_ms() - _UNLISTED_KEPT_MS\n",
        "    old_ms = place.table.clock.now_ms() + _UNLISTED_KEPT_MS\n",
        (f"{_ERASURE}/test_erase_published.py",),
    ),
    Fault(
        "an erasure leaves the manifests of publications that died",
        "engine/tideline/publication/expiry.py",
        '        or info.path.endswith(".avro")\n',
        "",
        (f"{_ERASURE}/test_erase_published.py",),
    ),
    Fault(
        "an erasure deletes files of a publication that can still be committed",
        "engine/tideline/erasure/execute.py",
        "    drop_old_bounds(place, voids_others=bool(unlisted))\n",
        "    drop_old_bounds(place)\n",
        (f"{_ERASURE}/test_erase_published.py",),
    ),
)
