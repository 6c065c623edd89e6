"""A source of topics with its places."""

from __future__ import annotations

from datetime import datetime

from tideline.ingest.sources.kafka.declared import (
    EARLIEST,
    LATEST,
    RECORDS_MAX,
    DeclaredKafka,
    Isolation,
    Mechanism,
    Protocol,
    ValueFormat,
)
from tideline.ingest.sources.kafka.offsets import OnDataLoss
from tideline.ingest.sources.kafka.read_engine import SPARK_BYTES_MAX, ReadEngine
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline_operator.resources.sources.files import columns_of
from tideline_operator.resources.sources.place_finder import PlaceFinder
from tideline_operator.resources.sources.source import Source


def resolve_topics(source: Source, places: PlaceFinder) -> DeclaredKafka:
    """The source with its places. Raises ConfigError naming the field."""
    set_aside = None
    if source.set_aside is not None:
        set_aside = places.find(source.set_aside, source.store_ref, "setAside")
        places.keep_apart("setAside", source.set_aside, set_aside)
    return DeclaredKafka(
        brokers=str(source.brokers),
        topics=source.topics,
        pattern=source.pattern or "",
        schema=columns_of(source),
        value=source.value or ValueFormat.JSON,
        registry=source.schema_registry or "",
        table=source.table or "",
        on_truncate=source.on_truncate or OnTruncate.FAIL,
        start=_start(source.start or EARLIEST),
        isolation=source.isolation or Isolation.READ_COMMITTED,
        on_data_loss=source.on_data_loss or OnDataLoss.FAIL,
        record_fields=source.record_fields,
        records_max=source.max_records_per_commit or RECORDS_MAX,
        bytes_max=source.max_bytes_per_commit or 0,
        commit_every_ms=source.commit_every.ms if source.commit_every else 0,
        protocol=source.protocol or Protocol.PLAINTEXT,
        mechanism=source.mechanism or Mechanism.PLAIN,
        set_aside=set_aside,
        engine=source.engine or ReadEngine.IN_PROCESS,
        spark_bytes_max=source.max_bytes_on_spark or SPARK_BYTES_MAX,
        writes_streamer_checkpoint=bool(source.write_streamer_checkpoint),
    )


def _start(text: str) -> str:
    if text in (EARLIEST, LATEST):
        return text
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return str(int(moment.timestamp() * 1000))
