"""Topics as a LakeTable declares them: brokers, topics, and how the values of records are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

from tideline.hudi.table.partial_updates import UNAVAILABLE as UNAVAILABLE
from tideline.ingest.column_type import Column, columns_object, read_columns
from tideline.ingest.location import Location
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.offsets import KafkaOffsets, OnDataLoss
from tideline.ingest.sources.kafka.position import KIND
from tideline.ingest.sources.kafka.read_engine import SPARK_BYTES_MAX, ReadEngine
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.source import ClaimedPlace, Declared, Position, Reach

EARLIEST, LATEST = "earliest", "latest"
_INTERNAL = "__"
"""How names of topics begin that brokers and their tools keep for themselves."""
RECORDS_MAX = 100_000
"""In one commit, unless declared."""


class Isolation(Enum):
    """Which records of transactions are read; the value is Kafka's."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Protocol(Enum):
    """How brokers are spoken to; the value is Kafka's."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        return self.value.endswith("SSL")

    @property
    def signs_in(self) -> bool:
        return self.value.startswith("SASL")


class Mechanism(Enum):
    """How a client signs in; the value is Kafka's."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class ValueFormat(Enum):
    """What values of records are."""

    JSON = "json"
    AVRO = "avro"
    DEBEZIUM_JSON = "debezium-json"
    DEBEZIUM_AVRO = "debezium-avro"
    MAXWELL_JSON = "maxwell-json"
    CANAL_JSON = "canal-json"
    RAW = "raw"

    @property
    def is_change_event(self) -> bool:
        return self.is_of_debezium or self.names_tables

    @property
    def is_of_debezium(self) -> bool:
        return self in (ValueFormat.DEBEZIUM_JSON, ValueFormat.DEBEZIUM_AVRO)

    @property
    def names_tables(self) -> bool:
        """Whether one topic has changes of many tables."""
        return self in (ValueFormat.MAXWELL_JSON, ValueFormat.CANAL_JSON)

    @property
    def event_fields(self) -> frozenset[RecordField]:
        """What of events can be columns."""
        found = {item for item in RecordField if item.is_of_event and self.is_change_event}
        if self.names_tables:
            found.discard(RecordField.LSN)
        if self is ValueFormat.CANAL_JSON:
            found -= {RecordField.TRANSACTION, RecordField.SEQUENCE}
        return frozenset(found)

    @property
    def needs_registry(self) -> bool:
        return self in (ValueFormat.AVRO, ValueFormat.DEBEZIUM_AVRO)


class RecordField(Enum):
    """What of a record, beside its value, can be a column; the value is the column's name.

    The last ones are of change events, named as in Hudi's DebeziumConstants. SEQUENCE is of MySQL:
    the number of the binlog, the position in it, the row of the event.
    """

    TOPIC = "_kafka_topic"
    PARTITION = "_kafka_partition"
    OFFSET = "_kafka_offset"
    TIMESTAMP = "_kafka_timestamp"
    KEY = "_kafka_key"
    HEADERS = "_kafka_headers"
    OPERATION = "_change_operation_type"
    ORIGIN_TIME = "_event_origin_ts_ms"
    TRANSACTION = "_event_tx_id"
    LSN = "_event_lsn"
    SEQUENCE = "_event_seq"

    @property
    def is_of_event(self) -> bool:
        return not self.value.startswith("_kafka_")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredKafka:
    """Topics of one cluster; `schema` has the columns of their values, where these do not say.

    They are `topics`, or else all whose whole names match `pattern`, those of the brokers left out.
    The schemas of Avro values are those of the `registry`. Of values that name tables those of
    `table` are taken, a name such as shop.orders.
    `start` is EARLIEST, LATEST or a time in milliseconds since 1970, for a table that has read
    nothing yet. Records that cannot be taken in are kept below `set_aside`; without it they fail
    the ingest. What is read on Spark has about `spark_bytes_max` bytes in one commit.
    """

    kind: ClassVar[str] = KIND
    part: ClassVar[str] = "partition"
    content: ClassVar[str] = "records"
    whereabouts: ClassVar[str] = "the topics"
    quarantine: ClassVar[str] = "source.setAside"
    is_read_on_spark: ClassVar[bool] = True
    is_followed: ClassVar[bool] = True
    is_checked_on_spark: ClassVar[bool] = False

    brokers: str
    topics: tuple[str, ...]
    schema: tuple[Column, ...]
    value: ValueFormat = ValueFormat.JSON
    registry: str = ""
    on_truncate: OnTruncate = OnTruncate.FAIL
    start: str = EARLIEST
    isolation: Isolation = Isolation.READ_COMMITTED
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    record_fields: tuple[RecordField, ...] = ()
    records_max: int = RECORDS_MAX
    bytes_max: int = 0
    commit_every_ms: int = 0
    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism = Mechanism.PLAIN
    set_aside: Location | None = None
    writes_streamer_checkpoint: bool = False
    pattern: str = ""
    engine: ReadEngine = ReadEngine.IN_PROCESS
    spark_bytes_max: int = SPARK_BYTES_MAX
    table: str = ""

    @property
    def uri(self) -> str:
        return f"kafka://{self.brokers.partition(',')[0]}/{self.pattern or ','.join(self.topics)}"

    @property
    def places(self) -> tuple[Location, ...]:
        return ()

    @property
    def server(self) -> str:
        return f"kafka {self.brokers}"

    @property
    def claimed(self) -> tuple[ClaimedPlace, ...]:
        return tuple(ClaimedPlace(to, "setAside") for to in (self.set_aside,) if to)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema

    @property
    def reserved(self) -> frozenset[str]:
        """Names of columns that no value fills."""
        ours = {item.value for item in RecordField if not item.is_of_event}
        return frozenset(ours | {item.value for item in self.record_fields})

    @property
    def reads_headers(self) -> bool:
        """Whether a column or the schemas of values are of headers."""
        return RecordField.HEADERS in self.record_fields or self.value.needs_registry

    @property
    def settles(self) -> bool:
        return False

    def is_wanted(self, topic: str) -> bool:
        """Whether it is one of these topics."""
        if not self.pattern:
            return topic in self.topics
        return not topic.startswith(_INTERNAL) and bool(re.fullmatch(self.pattern, topic))

    def address(self, table_uri: str) -> str:  # noqa: ARG002
        """The topics alone: brokers move, and a position has the ids of the topics. Of a pattern it
        is the same whatever matches."""
        if self.pattern:
            return f"kafka:/{self.pattern}/"
        return f"kafka:{','.join(sorted(self.topics))}"

    def positions(
        self,
        reach: Reach,
        after: Position | None,
        start: str = "",  # noqa: ARG002
    ) -> KafkaOffsets:
        """The offsets that the brokers have. Raises StorageUnavailableError, ConfigError."""
        credentials = Credentials.of(reach.variables)
        if reach.connect is not None:
            from tideline.ingest.sources.kafka.wire.look import look_by

            return look_by(self, credentials, reach.connect, after, asks_age=reach.asks_age)
        # Only what looks at topics needs a client of Kafka.
        from tideline.ingest.sources.kafka.broker import look_at

        asked = {"asks_age": reach.asks_age, "compares": reach.compares}
        return look_at(self, credentials, after, **asked)

    def takes_from(self, other: Declared) -> bool:  # noqa: ARG002
        return False

    def with_places(self, moved: Callable[[Location], Location]) -> DeclaredKafka:
        return replace(self, set_aside=moved(self.set_aside) if self.set_aside else None)

    def no_range(self) -> KafkaRange:
        return KafkaRange()

    def stored(self) -> dict[str, Any]:
        return {
            "brokers": self.brokers,
            "topics": list(self.topics),
            "pattern": self.pattern,
            "sourceSchema": columns_object(self.schema),
            "value": self.value.value,
            "registry": self.registry,
            "table": self.table,
            "onTruncate": self.on_truncate.value,
            "start": self.start,
            "isolation": self.isolation.value,
            "onDataLoss": self.on_data_loss.value,
            "recordFields": [item.value for item in self.record_fields],
            "recordsMax": self.records_max,
            "bytesMax": self.bytes_max,
            "commitEveryMs": self.commit_every_ms,
            "protocol": self.protocol.value,
            "mechanism": self.mechanism.value,
            "engine": self.engine.value,
            "sparkBytesMax": self.spark_bytes_max,
            "writesStreamerCheckpoint": self.writes_streamer_checkpoint,
            "setAside": None if self.set_aside is None else self.set_aside.to_json_object(),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> DeclaredKafka:
        set_aside = content["setAside"]
        return cls(
            brokers=str(content["brokers"]),
            topics=tuple(str(topic) for topic in content["topics"]),
            pattern=str(content.get("pattern", "")),
            schema=read_columns(content["sourceSchema"]),
            value=ValueFormat(content.get("value", ValueFormat.JSON.value)),
            registry=str(content.get("registry", "")),
            table=str(content.get("table", "")),
            on_truncate=OnTruncate(content.get("onTruncate", OnTruncate.FAIL.value)),
            start=str(content["start"]),
            isolation=Isolation(content["isolation"]),
            on_data_loss=OnDataLoss(content["onDataLoss"]),
            record_fields=tuple(RecordField(name) for name in content["recordFields"]),
            records_max=int(content["recordsMax"]),
            bytes_max=int(content.get("bytesMax", 0)),
            commit_every_ms=int(content.get("commitEveryMs", 0)),
            protocol=Protocol(content["protocol"]),
            mechanism=Mechanism(content["mechanism"]),
            engine=ReadEngine(content.get("engine", ReadEngine.IN_PROCESS.value)),
            spark_bytes_max=int(content.get("sparkBytesMax", SPARK_BYTES_MAX)),
            writes_streamer_checkpoint=bool(content.get("writesStreamerCheckpoint", False)),
            set_aside=Location.from_json_object(set_aside) if set_aside else None,
        )
