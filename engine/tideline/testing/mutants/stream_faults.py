"""Faults in streams that a storm over them has to notice."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_STORMS = "engine/tests/storms/test_stream_storms.py"
_OVER_A_TOPIC = (_STORMS, "-k", "short and inserts")
_OVER_POSTGRES = (_STORMS, "-k", "short and postgres")

STREAM_FAULTS = (
    Fault(
        "the position of a topic is one record behind what was read",
        "engine/tideline/ingest/sources/kafka/position.py",
        "ends = {span.partition: span.end for span in taken.spans}",
        "ends = {s.partition: s.end - (s.length > 1) for s in taken.spans}",
        _OVER_A_TOPIC,
    ),
    Fault(
        "the slot moves before the commit",
        "engine/tideline/ingest/sources/postgres/reader.py",
        "        changes.read(read_log(declared, wanted.until))\n",
        "        changes.read(read_log(declared, wanted.until))\n"
        "        advance_slot(declared, wanted.until)\n",
        _OVER_POSTGRES,
    ),
)
