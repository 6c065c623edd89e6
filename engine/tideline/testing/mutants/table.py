"""All planted faults."""

from __future__ import annotations

from collections import Counter

from tideline.testing.mutants.capabilities_faults import NATURE_FAULTS
from tideline.testing.mutants.erasure_faults import ERASURE_FAULTS
from tideline.testing.mutants.fault import Fault
from tideline.testing.mutants.iceberg_faults import ICEBERG_FAULTS
from tideline.testing.mutants.ingest_faults import INGEST_FAULTS
from tideline.testing.mutants.metadata_faults import METADATA_FAULTS
from tideline.testing.mutants.metastore_faults import METASTORE_FAULTS
from tideline.testing.mutants.operator_faults import OPERATOR_FAULTS
from tideline.testing.mutants.publication_faults import PUBLICATION_FAULTS
from tideline.testing.mutants.range_faults import RANGE_FAULTS
from tideline.testing.mutants.schema_faults import SCHEMA_FAULTS
from tideline.testing.mutants.service_faults import SERVICE_FAULTS
from tideline.testing.mutants.storage_faults import STORAGE_FAULTS
from tideline.testing.mutants.stream_faults import STREAM_FAULTS
from tideline.testing.mutants.topic_faults import TOPIC_FAULTS
from tideline.testing.mutants.trust_faults import TRUST_FAULTS
from tideline.testing.mutants.upgrade_faults import UPGRADE_FAULTS
from tideline.testing.mutants.write_faults import WRITE_FAULTS
from tideline.testing.suite_schedule import seconds_of, slices

FAULTS: tuple[Fault, ...] = (
    *STORAGE_FAULTS,
    *WRITE_FAULTS,
    *ERASURE_FAULTS,
    *SCHEMA_FAULTS,
    *RANGE_FAULTS,
    *INGEST_FAULTS,
    *STREAM_FAULTS,
    *TOPIC_FAULTS,
    *SERVICE_FAULTS,
    *METADATA_FAULTS,
    *UPGRADE_FAULTS,
    *NATURE_FAULTS,
    *ICEBERG_FAULTS,
    *PUBLICATION_FAULTS,
    *METASTORE_FAULTS,
    *OPERATOR_FAULTS,
    *TRUST_FAULTS,
)

_UNTIL_NOTICED_S = 12.0
"""After which a test file has noticed a fault, as a rule."""


def part_of_faults(number: int, count: int) -> tuple[Fault, ...]:
    """The faults of one of `count` parts of about equal length, by its number from 1.

    Those that one test file notices are in one part: it runs without a fault first.
    """
    noticed = Counter(fault.test_file for fault in FAULTS)
    seconds = {
        file: seconds_of(file) + faults * min(seconds_of(file), _UNTIL_NOTICED_S)
        for file, faults in noticed.items()
    }
    chosen = slices(seconds, count, seconds)[number - 1]
    return tuple(fault for fault in FAULTS if fault.test_file in chosen)
