"""Topics, a table, and the ingests between them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tideline.ingest.column_type import Column
from tideline.ingest.sources.kafka.declared import DeclaredKafka, ValueFormat
from tideline.testing.stream_feed import StreamFeed, columns

SCHEMA = columns(id="long", ts="long", v="string")


@dataclass
class TopicFeed(StreamFeed):
    """Ingests of topics by the record key `id`."""

    source: DeclaredKafka
    ordering: tuple[str, ...] = ("ts",)
    schema: tuple[Column, ...] = SCHEMA
    table_version: int = 8

    @classmethod
    def of(cls, folder: Path, brokers: str, *topics: str, **declared: Any) -> TopicFeed:
        source = DeclaredKafka(brokers=brokers, topics=topics, schema=SCHEMA)
        return cls(folder, replace(source, **declared))

    @classmethod
    def of_avro(
        cls, folder: Path, brokers: str, topic: str, registry: str, **declared: Any
    ) -> TopicFeed:
        """Of values whose columns are those of their schemas in a registry."""
        avro = {"schema": (), "value": ValueFormat.AVRO, "registry": registry}
        return cls.of(folder, brokers, topic, **avro, **declared)


def values(rows: Iterable[tuple[int, int, str | None]]) -> list[tuple[str, str]]:
    """Keys and JSON values of rows (id, ts, v)."""
    return [
        (str(number), json.dumps({"id": number, "ts": ts, "v": text})) for number, ts, text in rows
    ]
