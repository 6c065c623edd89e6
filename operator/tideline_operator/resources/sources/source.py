"""The source of an ingest: files that land below a prefix, topics of Kafka, a table of Postgres."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.read_options import unknown_option
from tideline.ingest.sources.kafka.credentials import SECRET_KEYS
from tideline.ingest.sources.kafka.declared import (
    RECORDS_MAX,
    Isolation,
    Mechanism,
    Protocol,
    RecordField,
    ValueFormat,
)
from tideline.ingest.sources.kafka.offsets import OnDataLoss
from tideline.ingest.sources.kafka.read_engine import ReadEngine
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.credentials import CONNECTION, secret_keys
from tideline.ingest.sources.postgres.declared import CHANGES_MAX
from tideline_operator.resources.field import CelRule, described, json_name, no_credentials_in
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.sources.column import SourceColumnSpec
from tideline_operator.resources.sources.place_finder import LOCATION_LENGTH_MAX
from tideline_operator.resources.sources.source_credentials import (
    FROM_SECRET_RULE,
    SourceCredentials,
    secret_fault,
)
from tideline_operator.resources.sources.topic_faults import (
    DELETES_OF_TABLES,
    FOR_EVENTS,
    faults_of_pattern,
    faults_of_record_fields,
)

_OF_FILES = ("options", "moved_from", "taken", "moved_to", "names_ascend")
_OF_TOPICS = (
    *(
        "start",
        "isolation",
        "on_data_loss",
        "record_fields",
        "protocol",
        "mechanism",
    ),
    *(
        "value",
        "schema_registry",
        "max_bytes_per_commit",
        "commit_every",
        "write_streamer_checkpoint",
        "engine",
        "max_bytes_on_spark",
    ),
)
_OF_TABLES = ("publication", "connection_variable")
_OF_STREAMS = ("max_records_per_commit", "set_aside", "on_truncate", "credentials")
_FOR_FILES = "is required for files, and only for them"
_FOR_TOPICS = "is required for kafka, and only for it"
_ONE_OF_TOPICS = "give topics or pattern, not both"
_FOR_AVRO = "is required with value: avro or debezium-avro, and only then allowed"
_FOR_TABLES = "is required for postgres, and only for it"
_FOR_NAMED = (
    "is required for postgres, and with value: maxwell-json or canal-json as database.table; only "
    "for them"
)
IDENTIFIER: Mapping[str, Any] = {
    "pattern": r"[a-z_][a-z0-9_]*",
    "pattern_meaning": "small letters, digits and _",
    "length_max": 63,
}
_WITH_MOVE = "is required with taken: Move, and only then allowed"


def _has_any_of(names: tuple[str, ...]) -> str:
    return " || ".join(f"has(self.{json_name(name)})" for name in names)


def _only(names: tuple[str, ...], condition: str, of: str) -> CelRule:
    """Fields of other kinds of sources are refused."""
    rule = f"{condition} || !({_has_any_of(names)})"
    return CelRule(rule, f"{', '.join(map(json_name, names))} are of {of}")


class SourceFormat(Enum):
    """Of what kind a source is."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    KAFKA = "kafka"
    POSTGRES = "postgres"

    @property
    def of_files(self) -> FileFormat:
        """That of its files. Raises ValueError for others."""
        return FileFormat(self.value)

    @property
    def is_of_files(self) -> bool:
        return self not in (SourceFormat.KAFKA, SourceFormat.POSTGRES)

    @property
    def foreign_fields(self) -> Mapping[str, str]:
        """Fields of other kinds of sources, each with what has it."""
        own = {
            SourceFormat.KAFKA: (*_OF_TOPICS, *_OF_STREAMS),
            SourceFormat.POSTGRES: (*_OF_TABLES, *_OF_STREAMS),
        }.get(self, _OF_FILES)
        owners = {
            "files": _OF_FILES,
            "kafka": _OF_TOPICS,
            "postgres": _OF_TABLES,
            "kafka and postgres": _OF_STREAMS,
        }
        return {name: owner for owner, names in owners.items() for name in names if name not in own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where rows come from, files that land, topics or a table, and how they are read."""

    format: SourceFormat = described(
        "parquet, csv (with a header line) or json (one per line) for files, kafka for topics, "
        "postgres for a table of Postgres."
    )
    path: str = described(
        "Landing prefix: s3://bucket/prefix/, or a folder, relative to the YAML file. Required "
        "for files.",
        default="",
        length_max=LOCATION_LENGTH_MAX,
    )
    store_ref: str | None = described(
        "LakeStore of the landing prefix when it is not the table's.", default=None, length_max=63
    )
    options: Mapping[str, str] = described(
        "Spark's read options for the format, such as sep or timestampFormat. Never credentials. "
        "Csv is read as RFC 4180 has it (quotes doubled, line breaks inside quotes); with "
        'multiLine: "false" large files are read by several tasks, and have no such line breaks.',
        default_factory=dict,
        length_max=1024,
        items_max=50,
        may_be_empty=True,
    )
    schema: tuple[SourceColumnSpec, ...] = described(
        "Columns of the files, for csv and json, inferred otherwise; or of the values of records, "
        "or of the table in Postgres, which otherwise have the table's columns.",
        default=(),
        items_max=2000,
        item_key="name",
    )
    moved_from: str | None = described(
        "The former path, where the files of the landing prefix were moved: the ingest continues "
        "from its checkpoint. Without it another path is refused.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    taken: AfterIngest = described(
        "What becomes of files whose rows are in the table, after the commit: Keep leaves them, "
        "Move puts them into movedTo, Remove deletes them. No other ingest may read this landing "
        "prefix then. What a restore undoes can only be ingested again where the files are kept.",
        default=AfterIngest.KEEP,
    )
    moved_to: str | None = described(
        "Where taken: Move puts files, under their paths in the landing prefix: a folder outside "
        "of it, in the same store.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    names_ascend: bool = described(
        "Whether files are named in the order in which they land, such as by their time: a look "
        "then lists only names close to, or after, those of files that were ingested. A file with "
        "an earlier name is found by a full look.",
        default=False,
    )
    full_look_every: Duration = described(
        "With namesAscend: how often the whole landing prefix is listed.",
        default=Duration(3_600_000),
        length_max=16,
    )
    brokers: str | None = described(
        "Addresses to begin with, host:port, with commas between them. For kafka, as what follows "
        "up to mechanism.",
        default=None,
        length_max=1024,
    )
    topics: tuple[str, ...] = described(
        "Topics whose records are ingested, where no pattern says so. A record without a value "
        "deletes what its key names.",
        default=(),
        items_max=100,
        pattern=r"[A-Za-z0-9._-]+",
        pattern_meaning="letters, digits, dots, - and _",
        length_max=249,
    )
    pattern: str | None = described(
        "Instead of topics: a regular expression for the whole names of topics, such as "
        "orders-.* or crm[.][a-z]+, without groups and with at most 3 of *, + and ? in each "
        "alternative. Topics that come later are read from their first record. Names that begin "
        "with __ are never meant.",
        default=None,
        pattern=r"[A-Za-z0-9._|?*+^\[\]\\-]+",
        pattern_meaning="letters, digits, . _ - | ? * + [ ] ^ and the backslash",
        length_max=1024,
    )
    value: ValueFormat | None = described(
        "What the values of records are. json, the default: objects with the columns of the "
        "schema. avro: records behind the number of their schema. debezium-json, debezium-avro, "
        "maxwell-json, canal-json: change events. raw: text or bytes for the only column of the "
        "schema.",
        default=None,
    )
    schema_registry: str | None = described(
        "Address of the registry that has the schemas of Avro values. Credentials are variables of "
        "the environment: SCHEMA_REGISTRY_USERNAME, SCHEMA_REGISTRY_PASSWORD, "
        "SCHEMA_REGISTRY_CA_FILE.",
        default=None,
        pattern=r"https?://[^\s/?#@]+(/[^\s?#@]*)?",
        pattern_meaning="an address of http or https without credentials",
        length_max=1024,
    )
    on_truncate: OnTruncate | None = described(
        "What happens where the source table is emptied, by a change event or in the log of "
        "Postgres. Fail, the default, stops the ingest; Ignore keeps the table's rows; Delete, "
        "for postgres, deletes them, in one commit with what comes after.",
        default=None,
    )
    start: str | None = described(
        "Where a table that has read nothing yet begins: earliest, which is the default; latest, "
        "the end that is there at its first commit, which holds that and no rows; or a time such "
        "as 2026-11-28T00:00:00Z: the first record of this time or later.",
        default=None,
        pattern=r"earliest|latest|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z",
        pattern_meaning="earliest, latest, or a time in UTC such as 2026-11-28T00:00:00Z",
        length_max=40,
    )
    isolation: Isolation | None = described(
        "read_committed, the default, leaves out records of transactions that were aborted, and "
        "waits for open ones.",
        default=None,
    )
    on_data_loss: OnDataLoss | None = described(
        "What happens where records were removed from a topic before they were ingested. Fail, the "
        "default, stops the ingest and names the offsets; Skip continues at what is left.",
        default=None,
    )
    record_fields: tuple[RecordField, ...] = described(
        "What of a record is a column as well: _kafka_topic, _kafka_partition, _kafka_offset, "
        "_kafka_timestamp, _kafka_key, _kafka_headers; of change events also "
        "_change_operation_type, _event_origin_ts_ms, _event_tx_id, and what orders them: "
        "_event_lsn of Postgres, _event_seq of MySQL.",
        default=(),
        items_max=11,
    )
    max_records_per_commit: int | None = described(
        "Largest number of records in one commit, or of changes of a table, whose transactions are "
        f"not divided; {RECORDS_MAX:,} and {CHANGES_MAX:,} by default. Their bytes must fit into "
        "the memory of one process. For kafka and postgres, as setAside.",
        default=None,
        minimum=1,
        maximum=10_000_000,
    )
    max_bytes_per_commit: int | None = described(
        "Bytes of keys and values that one commit has about, at most: from what a record had in "
        "the commit before follows how many records it takes. The first one takes 1,000.",
        default=None,
        minimum=1_000,
        maximum=10_000_000_000,
    )
    commit_every: Duration | None = described(
        "Least interval between two commits, such as 60s: what comes is gathered, unless it is as "
        "much as one commit may have. Fewer and larger files, and rows that are older.",
        default=None,
        length_max=16,
    )
    engine: ReadEngine | None = described(
        "What reads records: InProcess, the default; Spark, whose executors read by the same "
        "offsets; or Auto: Spark where more than 512 MiB wait, such as in the first load of a "
        "large topic. The first commit is always read in process.",
        default=None,
    )
    max_bytes_on_spark: int | None = described(
        "Bytes of keys and values that one commit has about that Spark reads, instead of "
        "maxRecordsPerCommit and maxBytesPerCommit; 10 GB by default.",
        default=None,
        minimum=1_000_000,
        maximum=1_000_000_000_000,
    )
    protocol: Protocol | None = described(
        "How brokers are spoken to, PLAINTEXT by default.",
        default=None,
    )
    mechanism: Mechanism | None = described(
        "How a client signs in, with protocol: SASL_PLAINTEXT or SASL_SSL; PLAIN by default. "
        "OAUTHBEARER takes KAFKA_CLIENT_ID, KAFKA_CLIENT_SECRET, KAFKA_TOKEN_URL and, if need be, "
        "KAFKA_TOKEN_SCOPE and KAFKA_TOKEN_CA.",
        default=None,
    )
    credentials: SourceCredentials | None = described(
        "Credentials for the brokers or the server. All ingests of a table that have some name the "
        "same Secret. For kafka and postgres.",
        default=None,
    )
    set_aside: str | None = described(
        "Folder for records that cannot be ingested, with onBadRow: Quarantine: one JSON object a "
        "line, with topic, partition and offset, or the range of the log, and the reason.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    table: str | None = described(
        "Table of Postgres, such as public.orders; public where no schema is given. With value: "
        "maxwell-json or canal-json the table of MySQL whose changes are taken, as database.table. "
        "For them alone; what follows is for postgres.",
        default=None,
        pattern=r"[^.\"\s]+(\.[^.\"\s]+)?",
        pattern_meaning="a name, or schema.name, without quotes",
        length_max=127,
    )
    slot: str | None = described(
        "Replication slot, of this ingest alone. It is made where it is missing, and keeps the log "
        "of the server until it is in the table.",
        default=None,
        **IDENTIFIER,
    )
    publication: str | None = described(
        "Publication that has the table; named like the slot by default, and made where it is "
        "missing.",
        default=None,
        **IDENTIFIER,
    )
    connection_variable: str | None = described(
        "Variable of the environment that has the connection string, such as "
        f"postgresql://user:password@host/database; {CONNECTION} by default.",
        default=None,
        pattern=r"[A-Z_][A-Z0-9_]*",
        pattern_meaning="the name of a variable in capitals",
        length_max=63,
    )

    write_streamer_checkpoint: bool | None = described(
        "Whether each commit has a checkpoint of Hudi's streamer too, which can take over then. "
        "The streamer's own, where it is newer than the ingest's, is always where that continues.",
        default=None,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        no_credentials_in("options"),
        CelRule(
            "(has(self.movedTo)) == (has(self.taken) && self.taken == 'Move')",
            _WITH_MOVE,
            field="movedTo",
        ),
        _only(_OF_TOPICS, "self.format == 'kafka'", "kafka"),
        _only(_OF_TABLES, "self.format == 'postgres'", "postgres"),
        _only(_OF_STREAMS, "self.format in ['kafka', 'postgres']", "kafka and postgres"),
        CelRule(
            "(self.format in ['kafka', 'postgres']) != has(self.path)", _FOR_FILES, field="path"
        ),
        CelRule("(self.format == 'kafka') == has(self.brokers)", _FOR_TOPICS, field="brokers"),
        CelRule(
            "(self.format == 'kafka') == "
            "(has(self.pattern) || (has(self.topics) && self.topics.size() > 0))",
            _FOR_TOPICS,
            field="topics",
        ),
        CelRule(
            "!has(self.pattern) || !has(self.topics) || self.topics.size() == 0",
            _ONE_OF_TOPICS,
            field="pattern",
        ),
        CelRule(
            "(has(self.value) && self.value in ['avro', 'debezium-avro'])"
            " == has(self.schemaRegistry)",
            _FOR_AVRO,
            field="schemaRegistry",
        ),
        CelRule(
            "!has(self.onTruncate) || self.format == 'postgres' ||"
            " (has(self.value) && self.value in"
            " ['debezium-json', 'debezium-avro', 'maxwell-json', 'canal-json'])",
            FOR_EVENTS,
            field="onTruncate",
        ),
        CelRule(
            "!has(self.onTruncate) || self.onTruncate != 'Delete' || self.format == 'postgres'",
            DELETES_OF_TABLES,
            field="onTruncate",
        ),
        FROM_SECRET_RULE,
        CelRule(
            "has(self.value) && self.value in ['maxwell-json', 'canal-json']"
            " ? has(self.table) && self.table.contains('.')"
            " : (self.format == 'postgres') == has(self.table)",
            _FOR_NAMED,
            field="table",
        ),
        CelRule("(self.format == 'postgres') == has(self.slot)", _FOR_TABLES, field="slot"),
    )

    @property
    def has_change_events(self) -> bool:
        return self.value is not None and self.value.is_change_event

    @property
    def lacks_values(self) -> bool:
        """Whether updates may leave out what stays."""
        return self.value is not None and self.value.is_of_debezium

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """What of its Secret it takes, each as the variable of its name; none without one."""
        if self.credentials is None:
            return ()
        if self.format is SourceFormat.POSTGRES:
            return secret_keys(self.connection_variable or CONNECTION)
        return SECRET_KEYS

    @property
    def partial_looks(self) -> Duration | None:
        """How long looks may be partial after a full one; None where all are full."""
        return self.full_look_every if self.names_ascend else None

    def faults(self) -> Iterator[tuple[str, str]]:
        """A source has the fields of its kind; read options are Spark's; a folder is given where
        files are moved."""
        yield from self._faults_of_kind()
        if not self.format.is_of_files:
            return
        for name in self.options:
            problem = unknown_option(self.format.of_files, name)
            if problem is not None:
                yield f"options.{name}", problem
        if (self.moved_to is not None) != (self.taken is AfterIngest.MOVE):
            yield "movedTo", _WITH_MOVE

    def _faults_of_kind(self) -> Iterator[tuple[str, str]]:
        """Each kind of source has fields of its own."""
        is_kafka, is_postgres = (
            self.format is wanted for wanted in (SourceFormat.KAFKA, SourceFormat.POSTGRES)
        )
        for name, given in (("brokers", self.brokers), ("topics", self.topics or self.pattern)):
            if bool(given) != is_kafka:
                yield name, _FOR_TOPICS
        if bool(self.slot) != is_postgres:
            yield "slot", _FOR_TABLES
        names_tables = self.value is not None and self.value.names_tables
        if bool(self.table) != (is_postgres or names_tables) or (
            names_tables and "." not in str(self.table)
        ):
            yield "table", _FOR_NAMED
        if bool(self.path) != self.format.is_of_files:
            yield "path", _FOR_FILES
        if self.topics and self.pattern:
            yield "pattern", _ONE_OF_TOPICS
        if self.pattern:
            yield from (("pattern", fault) for fault in faults_of_pattern(self.pattern))
        yield from secret_fault(self.credentials, self.connection_variable)
        needs_registry = self.value is not None and self.value.needs_registry
        if bool(self.schema_registry) != needs_registry:
            yield "schemaRegistry", _FOR_AVRO
        if self.on_truncate is not None and is_kafka and not self.has_change_events:
            yield "onTruncate", FOR_EVENTS
        if self.on_truncate is OnTruncate.DELETE and not is_postgres:
            yield "onTruncate", DELETES_OF_TABLES
        yield from faults_of_record_fields(self.value, self.record_fields)
        foreign = self.format.foreign_fields
        for item in dataclasses.fields(self):
            is_given = getattr(self, item.name) not in (item.default, None, {}, ())
            if item.name in foreign and is_given:
                of = foreign[item.name]
                yield json_name(item.name), f"is of {of}, and the format is {self.format.value}"
