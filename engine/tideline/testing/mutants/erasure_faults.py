"""Faults in deletes by condition, in keys that stored rows decide, and in erasures."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_KEYS = "engine/tideline/hudi/keys"
_WRITE = "engine/tideline/hudi/write"
_VERBS = ("engine/tests/spark/write/test_table_verbs.py",)
_TEXTS = ("engine/tests/hudi/keys/test_key_text.py",)
_FILES_OF_ROWS = ("engine/tests/hudi/write/test_files_of_conditional_writes.py",)
_SPELLING = ("engine/tests/hudi/write/test_stored_spelling.py",)
_ERASURE = "engine/tests/erasure"
_PROVE = "engine/tideline/erasure/prove.py"
_STORED = "engine/tideline/erasure/stored_rows.py"
_FILES = (f"{_ERASURE}/test_proof_of_files.py",)

ERASURE_FAULTS = (
    Fault(
        "rows that are not found by their keys stay, without a word",
        f"{_WRITE}/write_by_location.py",
        "        matched.require_found(profile.total_updates, table.uri, transaction.timeline)\n",
        "        matched.require_found(matched.count, table.uri, transaction.timeline)\n",
        _VERBS,
    ),
    Fault(
        "copies of a key stay in a file where a log deletes one",
        f"{_WRITE}/write_by_location.py",
        "        matched.require_deleted(deleted, table.uri, transaction.timeline)\n",
        "        matched.require_deleted(matched.count, table.uri, transaction.timeline)\n",
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
        "a delete takes the record of a key away whose other copy stays",
        f"{_WRITE}/write_by_location.py",
        "    places = indexed if read_from is None else read_from.union(indexed or ())\n",
        "    places = indexed if read_from is None else read_from\n",
        _FILES_OF_ROWS,
    ),
    Fault(
        "an update changes a copy of a key that does not match",
        f"{_WRITE}/write_by_location.py",
        "    read_from = None if matched is None else matched.groups\n",
        "    read_from = matched.groups if matched and matched.done == 'deleted' else None\n",
        _FILES_OF_ROWS,
    ),
    Fault(
        "bounds of keys in another order than that of bytes leave files out",
        "engine/tideline/hudi/metadata_table/key_ranges.py",
        "is_exact=row.is_tight)",
        "is_exact=True)",
        _FILES_OF_ROWS,
    ),
    Fault(
        "both spellings of times in one table are taken for one",
        f"{_KEYS}/stored_spelling.py",
        "    if len(seen) > 1:\n",
        "    if len(seen) > 2:\n",
        _SPELLING,
    ),
    Fault(
        "numbers and texts of times in one table's paths are taken for one",
        f"{_KEYS}/stored_spelling.py",
        "    if len(found) > 1:\n",
        "    if len(found) > 2:\n",
        _SPELLING,
    ),
    Fault(
        "times in paths that Spark SQL made keep parts of a second",
        f"{_KEYS}/key_text.py",
        'pa.array(millis // _MILLIS_PER_SECOND, mask=is_beyond).cast(pa.timestamp("s"))',
        'pa.array(millis, mask=is_beyond).cast(pa.timestamp("ms"))',
        _SPELLING,
    ),
    Fault(
        "a time of another calendar than Hudi's makes a key",
        f"{_KEYS}/key_text.py",
        "(millis < TEXT_MILLIS_MIN) | (millis > MILLIS_MAX)\n        return",
        "millis > MILLIS_MAX\n        return",
        _TEXTS,
    ),
    Fault(
        "a day after the year 9999 has no plus sign",
        f"{_KEYS}/key_text.py",
        "return _in_cycles(texts, cycles) if cycles.any() else texts",
        "return texts",
        _TEXTS,
    ),
    Fault(
        "a key column widens, and a row has another key",
        f"{_KEYS}/key_types.py",
        "    if widens_to(stored, given):\n        return False\n",
        "    if widens_to(stored, given):\n        return True\n",
        ("engine/tests/hudi/keys/test_key_types.py",),
    ),
    Fault(
        "files of a table are deleted as source files",
        "engine/tideline/erasure/source_files.py",
        "        for place in self.places:\n            _refuse_table(place)\n",
        "",
        (f"{_ERASURE}/test_erase_source_files.py", "-k", "no_folder_of_a_table"),
    ),
    Fault(
        "an erasure passes over the rows of change events that were set aside",
        "engine/tideline/erasure/source_files.py",
        "    for name in _VERSIONS_OF_A_ROW:\n",
        "    for name in ():\n",
        (f"{_ERASURE}/test_erase_source_files.py", "-k", "set_aside_from_streams"),
    ),
    Fault(
        "an erasure leaves bounds of files that were removed before",
        "engine/tideline/erasure/iceberg_rows.py",
        "            drops_old_bounds=True,\n",
        "            drops_old_bounds=False,\n",
        (f"{_ERASURE}/test_erase_iceberg_interop.py",),
    ),
    Fault(
        "a manifest gives bounds of a file that its erasure removed",
        "engine/tideline/iceberg/commit/manifest_filter.py",
        "        file = found.without_bounds() if self._drops_old_bounds else found\n",
        "        file = found\n",
        (f"{_ERASURE}/test_erase_iceberg_interop.py", f"{_ERASURE}/test_erase.py"),
    ),
    Fault(
        "entries of replaced files lose the bounds by which a concurrent delete leaves them alone",
        "engine/tideline/iceberg/commit/manifest_filter.py",
        "        file = found.without_bounds() if self._drops_old_bounds else found\n",
        "        file = found.without_bounds()\n",
        ("engine/tests/iceberg/test_deletes_beside_a_rewrite.py",),
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
    Fault(
        "the proof passes over a partition that is named as the folder of Iceberg",
        _PROVE,
        "        if is_table_metadata(info.path):\n",
        "        if is_table_metadata(info.path) or info.path.startswith(_ICEBERG_FOLDER):\n",
        _FILES,
    ),
    Fault(
        "the proof does not name what is no data file",
        _PROVE,
        "        elif not (_is_sign(info) or _is_of_iceberg(info.path)):\n",
        "        elif not (_is_sign(info) or info.path.startswith(_ICEBERG_FOLDER)):\n",
        _FILES,
    ),
    Fault(
        "the proof passes over a publication's copies of rows",
        _PROVE,
        "            files.append(published)\n",
        "            pass\n",
        _FILES,
    ),
    Fault(
        "the proof passes over files that are hidden",
        _PROVE,
        '    is_sidecar = name.endswith(".crc") or name in (*METADATA_NAMES, *_EMPTY_SIGNS)\n',
        '    is_sidecar = name.startswith(".") or name in (*METADATA_NAMES, *_EMPTY_SIGNS)\n',
        _FILES,
    ),
    Fault(
        "the proof reads only blocks of logs whose rows are Avro",
        _STORED,
        "            elif frame.kind.is_data:\n",
        "            elif frame.kind is BlockKind.AVRO_DATA:\n",
        _FILES,
    ),
)
