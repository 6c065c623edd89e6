"""Hudi's own streamer: one round of it takes a topic into a table, from where the table says.

It is one of `hudi_utilities`: `HoodieStreamer` with `JsonKafkaSource`. Columns are those of
`topic_feed`; it inserts, so that a record that is read twice is a row twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tideline.spark.session.connectors import MavenArtifact
from tideline.testing.hudi_utilities import SETTINGS, prepared_utilities
from tideline.testing.maven_jars import fetched_jars

_SOURCE = "org.apache.hudi.utilities.sources.JsonKafkaSource"
_SCHEMAS = "org.apache.hudi.utilities.schema.FilebasedSchemaProvider"
_KEYS = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
_KAFKA_VERSION = "3.4.1"
"""The last one for the Spark of `hudi_utilities` in Maven's repository."""
_NEEDS = (
    MavenArtifact("org.apache.spark", "spark-streaming-kafka-0-10_2.12", _KAFKA_VERSION),
    MavenArtifact("com.twitter", "bijection-avro_2.12", "0.9.7"),
    # Its classes name some that the bundle has under other names.
    MavenArtifact("org.apache.hudi", "hudi-spark-client", "0.14.0", without=("*",)),
)
_SPARK_HAS = ("scala-library", "hadoop-client", "slf4j-api", "avro-")
_TIMEOUT_S = 900.0
_SCHEMA = {
    "type": "record",
    "name": "orders",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": "long"},
        {"name": "v", "type": ["null", "string"], "default": None},
    ],
}


def build() -> Path:
    """The folder of what it needs to read topics, fetched if need be. Raises
    PeerUnavailableError."""
    return fetched_jars(f"hudi-streamer-0.14.0-{_KAFKA_VERSION}", _NEEDS)


@dataclass(frozen=True, slots=True)
class HudiStreamer:
    """Rounds of it from a topic into a table with the record key `id`."""

    brokers: str
    topic: str
    table: Path
    table_type: str
    work: Path

    def round(self) -> None:
        """Take in all there is. Raises AssertionError with what it said."""
        self.work.mkdir(parents=True, exist_ok=True)
        schema = self.work / "schema.avsc"
        schema.write_text(json.dumps(_SCHEMA))
        settings = {
            "bootstrap.servers": self.brokers,
            "auto.offset.reset": "earliest",
            "hoodie.deltastreamer.source.kafka.topic": self.topic,
            "hoodie.deltastreamer.schemaprovider.source.schema.file": schema.as_uri(),
            "hoodie.deltastreamer.schemaprovider.target.schema.file": schema.as_uri(),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": _KEYS,
            "hoodie.metadata.enable": "false",
            "hoodie.insert.shuffle.parallelism": "1",
        }
        properties = self.work / "streamer.properties"
        properties.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        utilities = prepared_utilities()
        # Log4j, Scala and Hadoop are Spark's own.
        jars = [jar for jar in build().glob("*.jar") if not jar.name.startswith(_SPARK_HAS)]
        given = {
            "jars": [str(jar) for jar in (*utilities.jars, *jars)],
            "spark": SETTINGS,
            "operation": "INSERT",
            "config": {
                "targetBasePath": self.table.as_uri(),
                "targetTableName": "orders",
                "tableType": self.table_type,
                "sourceClassName": _SOURCE,
                "schemaProviderClassName": _SCHEMAS,
                "sourceOrderingField": "ts",
                "propsFilePath": properties.as_uri(),
            },
        }
        script = Path(__file__).with_name("hudi_streamer_round.py")
        command = [str(utilities.python), str(script), json.dumps(given)]
        done = utilities.run(command, _TIMEOUT_S)
        assert done.returncode == 0, done.stdout[-8000:]
