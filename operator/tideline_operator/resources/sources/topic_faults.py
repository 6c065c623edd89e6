"""What is wrong with fields of a source of topics, beyond what a schema says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tideline.ingest.sources.kafka.declared import RecordField, ValueFormat

FOR_EVENTS = "is of change events: debezium-json, debezium-avro, maxwell-json, canal-json"
DELETES_OF_TABLES = (
    "Delete is for postgres: a truncate has no order against records of other partitions"
)
_REPEATS_MAX = 3
"""In one alternative of a pattern: what a match can cost grows with its power."""


def faults_of_record_fields(
    value: ValueFormat | None, fields: Sequence[RecordField]
) -> Iterator[tuple[str, str]]:
    """Those that values of this format do not have."""
    value = value or ValueFormat.JSON
    for place, wanted in enumerate(fields):
        if wanted.is_of_event and wanted not in value.event_fields:
            of = f"is nothing that events of {value.value} have"
            yield f"recordFields[{place}]", of if value.is_change_event else FOR_EVENTS


def faults_of_pattern(pattern: str) -> Iterator[str]:
    """Of a regular expression that names topics."""
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"is no regular expression: {error}"
    if any(sum(map(part.count, "*+?")) > _REPEATS_MAX for part in pattern.split("|")):
        yield f"has more than {_REPEATS_MAX} of *, + and ? in one alternative"
