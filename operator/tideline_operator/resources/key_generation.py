"""How the record keys and partition paths of a table are written, as a LakeTable declares it."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from tideline.hudi.table.table_config import KeyGeneratorKind
from tideline_operator.resources.field import CelRule, described


class TimestampInput(Enum):
    """What a timestamp key generator reads."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    SCALAR = "SCALAR"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampPartitioning:
    """How a timestamp key generator makes a partition path of a time."""

    type: TimestampInput = described("What the partition column holds.")
    output_format: str = described(
        "Joda pattern of the partition path, such as yyyy/MM/dd.", length_max=64
    )
    input_format: str | None = described(
        "Joda pattern of the input, for DATE_STRING and MIXED.", default=None, length_max=256
    )
    timezone: str = described("Zone of the partition path.", default="UTC", length_max=64)
    scalar_unit: str | None = described(
        "Unit of a SCALAR column: DAYS, HOURS, MINUTES, SECONDS, MILLISECONDS, MICROSECONDS.",
        default=None,
        pattern="DAYS|HOURS|MINUTES|SECONDS|MILLISECONDS|MICROSECONDS",
        pattern_meaning="a unit of java.util.concurrent.TimeUnit",
        length_max=16,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!(self.type in ['DATE_STRING', 'MIXED']) || has(self.inputFormat)",
            "is required for types DATE_STRING and MIXED",
            field="inputFormat",
        ),
        CelRule(
            "self.type != 'SCALAR' || has(self.scalarUnit)",
            "is required for type SCALAR",
            field="scalarUnit",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Strings need their format, scalars their unit."""
        reads_strings = self.type in (TimestampInput.DATE_STRING, TimestampInput.MIXED)
        if reads_strings and self.input_format is None:
            yield "inputFormat", f"is required for type {self.type.value}"
        if self.type is TimestampInput.SCALAR and self.scalar_unit is None:
            yield "scalarUnit", "is required for type SCALAR"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGeneration:
    """How record keys and partition paths are written."""

    type: KeyGeneratorKind | None = described(
        "Key generator; without it the one Hudi chooses from the columns.", default=None
    )
    hive_style: bool = described("Partition paths as column=value.", default=False)
    url_encode: bool = described("Percent-encode partition values.", default=False)
    timestamp: TimestampPartitioning | None = described(
        "Options of the TIMESTAMP generator.", default=None
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.timestamp) || (has(self.type) && self.type in ['TIMESTAMP', 'CUSTOM'])",
            "requires type TIMESTAMP or CUSTOM",
            field="timestamp",
        ),
        CelRule(
            "has(self.timestamp) || !has(self.type) || self.type != 'TIMESTAMP'",
            "is required for type TIMESTAMP",
            field="timestamp",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Timestamp options and the generators that read them come together."""
        takes = self.type in (KeyGeneratorKind.TIMESTAMP, KeyGeneratorKind.CUSTOM)
        if self.timestamp is not None and not takes:
            yield "timestamp", "requires type TIMESTAMP or CUSTOM"
        if self.timestamp is None and self.type is KeyGeneratorKind.TIMESTAMP:
            yield "timestamp", "is required for type TIMESTAMP"
