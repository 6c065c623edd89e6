"""Faults in ranges of topics: what Spark reads, and in what order rows of several tasks are."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_RECORDS = "engine/tideline/ingest/sources/kafka/records.py"
_OFFSETS = "engine/tideline/ingest/sources/kafka/offsets.py"
_ON_SPARK = "engine/tideline/ingest/sources/kafka/on_spark.py"
_TASKS = "engine/tideline/ingest/sources/kafka/span_tasks.py"
_REGISTRY = "engine/tideline/ingest/sources/kafka/schema_registry.py"
_REQUESTS = "engine/tideline/ingest/sources/kafka/registry_requests.py"
_PLAN_TESTS = ("engine/tests/ingest/sources/kafka/test_planned_offsets.py",)
_ROW_TESTS = ("engine/tests/ingest/sources/kafka/test_ranges_on_spark.py", "-k", "json and ts")
_FAILURE_TESTS = ("engine/tests/ingest/sources/kafka/test_spans_that_fail.py", "-k", "bad_record")
_REGISTRY_TESTS = (
    "engine/tests/ingest/sources/kafka/test_refilled_registries.py",
    *("-k", "does_not_keep"),
)
_VALUE_TESTS = ("engine/tests/ingest/sources/kafka/test_avro_values.py", "-k", "otherwise_is_named")

TOPIC_FAULTS = (
    Fault(
        "rows of two partitions have the same places",
        _RECORDS,
        "            before += span.length\n",
        "",
        _PLAN_TESTS,
    ),
    Fault(
        "a span has offsets behind its range",
        _RECORDS,
        "end=min(first + length_max, span.end),",
        "end=first + length_max,",
        _PLAN_TESTS,
    ),
    Fault(
        "a range for Spark forgets that it is one",
        _RECORDS,
        "        kept = tuple(span for span in self.spans if str(span.partition) in names)\n"
        "        return replace(self, spans=kept)\n",
        "        kept = tuple(span for span in self.spans if str(span.partition) in names)\n"
        "        return KafkaRange(kept)\n",
        _PLAN_TESTS,
    ),
    Fault(
        "Spark is started for what a process can take",
        _OFFSETS,
        "or size_bytes > LARGE_BYTES",
        "or size_bytes > 0",
        _PLAN_TESTS,
    ),
    Fault(
        "rows arrive as if each span were the range",
        _TASKS,
        "read_records(self.declared, wanted, self.shifts, epochs)",
        "read_records(self.declared, wanted, None, epochs)",
        _ROW_TESTS,
    ),
    Fault(
        "a number of a schema means what it means now",
        _REGISTRY,
        "        if known not in (None, found.digest):\n",
        "        if False:\n",
        _REGISTRY_TESTS,
    ),
    Fault(
        "a page that is not found is a schema that is not known",
        _REQUESTS,
        "        if _says_unknown(error):\n",
        "        if True:\n",
        _VALUE_TESTS,
    ),
    Fault(
        "a tombstone deletes only what its own task has read",
        _ON_SPARK,
        "return without_deleted(rows, self.shape.record_key, self.shape.ordering_columns)",
        "return rows",
        _ROW_TESTS,
    ),
    Fault(
        "bad records of a range that Spark reads are passed over",
        _ON_SPARK,
        "if found.digests - self.shape.left_out:",
        "if not found.columns:",
        _FAILURE_TESTS,
    ),
)
