"""Faults in streams that a storm over them has to notice."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_STORMS = "engine/tests/storms/test_stream_storms.py"
_OVER_A_TOPIC = (_STORMS, "-k", "short and inserts and not two")
_OVER_POSTGRES = (_STORMS, "-k", "short and postgres and not again")

STREAM_FAULTS = (
    Fault(
        "a look at a log ends in the transaction that a slow span aborted",
        "engine/tideline/ingest/sources/postgres/ahead.py",
        "            end_turn(connection)\n            return None\n",
        "            return None\n",
        (
            "engine/tests/ingest/sources/postgres/test_steps_through_a_log.py",
            "-k",
            "times_out",
        ),
    ),
    Fault(
        "the position of a topic is one record behind what was read",
        "engine/tideline/ingest/sources/kafka/position.py",
        "ends = {span.partition: span.end for span in taken.spans}",
        "ends = {s.partition: s.end - (s.length > 1) for s in taken.spans}",
        _OVER_A_TOPIC,
    ),
    Fault(
        "a range is committed twice: nobody asks whether another has committed it",
        "engine/tideline/ingest/execute/table_checkpoints.py",
        "    if generation != work.generation:\n",
        "    if generation < work.generation:\n",
        _OVER_A_TOPIC,
        (
            (
                "engine/tideline/hudi/commit/conflict.py",
                "        if theirs is not None and theirs >= ours:\n            return instant\n",
                "",
            ),
        ),
    ),
    Fault(
        "the checkpoint is not moved with the commit",
        "engine/tideline/ingest/execute/ingest_batch.py",
        "            position=position,\n",
        "            position=before.position if before and before.generation == 5"
        " else position,\n",
        _OVER_A_TOPIC,
    ),
    Fault(
        "a record behind what was read is passed over",
        "engine/tideline/ingest/sources/kafka/position.py",
        "ends = {span.partition: span.end for span in taken.spans}",
        "ends = {s.partition: s.end + (s.length > 20) for s in taken.spans}",
        _OVER_A_TOPIC,
    ),
    Fault(
        "a range of the log ends where the log ended",
        "engine/tideline/ingest/sources/postgres/look.py",
        "found.until, None, None, noted, found.last or last)\n",
        "self.flushed, None, None, noted, found.last or last)\n",
        _OVER_POSTGRES,
    ),
    Fault(
        "the slot moves before the commit",
        "engine/tideline/ingest/sources/postgres/reader.py",
        "        if changes.leaves.new:\n",
        "        advance_slot(declared, wanted.until)\n        if changes.leaves.new:\n",
        _OVER_POSTGRES,
    ),
)
