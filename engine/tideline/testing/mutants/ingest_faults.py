"""Faults in landing: checkpoints, and which of them an ingest continues from."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_RESUME = "engine/tideline/ingest/sources/resume.py"
_RESUME_TESTS = ("engine/tests/ingest/sources/test_resume.py",)
_LISTING = "engine/tideline/ingest/sources/files/listing.py"
_NESTED_NUMBERS = "engine/tideline/spark/source_files/nested_numbers.py"
_NESTED_NUMBERS_TESTS = ("engine/tests/spark/source_files/test_inferred_types.py", "-k", "inside")

INGEST_FAULTS = (
    Fault(
        "the checkpoint forgets what it took before",
        _LISTING,
        "taken=start.taken | {file.identity for file in files},",
        "taken=frozenset(file.identity for file in files),",
        ("engine/tests/ingest/sources/test_checkpoint.py", "-k", "not in_any_order"),
    ),
    Fault(
        "an overtaken copy of a checkpoint is believed",
        "engine/tideline/ingest/sources/checkpoint.py",
        "        if name not in found or checkpoint.generation > found[name].generation:\n"
        "            found[name] = checkpoint\n",
        "        found[name] = checkpoint\n",
        ("engine/tests/ingest/sources/test_checkpoint.py",),
    ),
    Fault(
        "the floor of a checkpoint passes files that were not taken",
        _LISTING,
        "            if too_young or file.identity not in taken:\n                break\n",
        "            if too_young:\n                break\n            taken.add(file.identity)\n",
        ("engine/tests/ingest/sources/test_checkpoint.py",),
    ),
    Fault(
        "files of a table below the landing prefix are taken in",
        _LISTING,
        "            if root_around(found.path, tables) is not None:\n                continue\n",
        "",
        ("engine/tests/ingest/sources/files/test_paths_that_are_no_folder.py",),
    ),
    Fault(
        "files that were taken in are deleted from a table around them",
        "engine/tideline/ingest/sources/files/settle.py",
        "find_table_around(landing) if seen.taken else None",
        "None",
        ("engine/tests/ingest/sources/files/test_settle.py", "-k", "table_around"),
    ),
    Fault(
        "the watermark of a checkpoint goes back with an older file",
        _LISTING,
        "watermark=max(start.watermark, newest),",
        "watermark=newest,",
        ("engine/tests/ingest/sources/test_checkpoint.py", "-k", "not in_any_order"),
    ),
    Fault(
        "files that left the landing prefix hide as many late ones",
        _LISTING,
        "settled = min(start.settled, self._count_at(start.floor))",
        "settled = start.settled",
        ("engine/tests/ingest/sources/test_checkpoint.py", "-k", "not in_any_order"),
    ),
    Fault(
        "a prefix that moved keeps a checkpoint that is not about it",
        _RESUME,
        'if checkpoint.address in ("", claim.address, claim.former_address):\n',
        "if checkpoint.address or claim.address:\n",
        _RESUME_TESTS,
    ),
    Fault(
        "a renamed ingest inserts everything again",
        _RESUME,
        "    if claim.operation in _INSERTING:\n",
        "    if claim.operation == claim.name:\n",
        _RESUME_TESTS,
    ),
    Fault(
        "a name that is given back falls behind the one that continued",
        "engine/tideline/ingest/sources/checkpoint.py",
        "    return max(found, key=lambda checkpoint: checkpoint.generation, default=None)\n",
        "    return found[0] if found else None\n",
        _RESUME_TESTS,
    ),
    Fault(
        "numbers in lists of JSON are not looked at",
        _NESTED_NUMBERS,
        "yield from ((ELEMENTS, *path) for path in paths_to(wanted, kind.elementType))",
        "yield from ((ELEMENTS, *path) for path in paths_to(wanted, T.NullType()))",
        _NESTED_NUMBERS_TESTS,
    ),
    Fault(
        "later numbers in objects of JSON are rounded",
        "engine/tideline/spark/source_files/written_values.py",
        "is_bad = is_bad | any_at(value, path, _is_changed_number)",
        "is_bad = is_bad | any_at(value, path, lambda _: F.lit(False))",
        _NESTED_NUMBERS_TESTS,
    ),
    Fault(
        "a file is forgotten that one listing leaves out",
        "engine/tideline/ingest/sources/files/position.py",
        "taken=self.taken - (missed & self.missed)",
        "taken=self.taken - missed",
        ("engine/tests/ingest/sources/files/test_plan.py",),
    ),
)
