"""`tideline show`: what a table is, how much there is of it, what its ingests set aside."""

from __future__ import annotations

from typing import Any

from tideline.cli.any_table import any_table_options, open_any
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.ingests import describe_ingests
from tideline.cli.output import print_facts, print_json, print_line, print_table
from tideline.cli.schema_file import avro_columns
from tideline.hudi.capabilities.table_capabilities import key_generator_text, merging_text
from tideline.hudi.index.bucket_recognition import recognise_buckets
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import described
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.known_zone import KnownZone, ZoneBasis
from tideline.hudi.timeline.zone import offset_text
from tideline.settings.gate import stored_problems
from tideline.wording import size_text

_COLUMN_LISTS = ("record_key", "partition_by", "ordering")


@command("show")
@any_table_options
def show_command(source: TableSource, as_json: bool) -> None:
    """Describe the table at URI: what it is, its columns, how much there is."""
    table = open_any(source)
    if not isinstance(table, HoodieTable):
        # Takes a tenth of a second to import, which Hudi tables need not wait for.
        from tideline.cli.iceberg_show import print_description

        print_description(table, as_json=as_json)
        return
    description = describe_table(table)
    if as_json:
        print_json(description)
        return
    columns = description.pop("columns")
    properties = description.pop("properties")
    ingests = description.pop("ingests")
    problems = description.pop("settings_without_effect")
    description["size"] = size_text(description.pop("size_bytes"))
    description |= {name: ", ".join(description[name]) or None for name in _COLUMN_LISTS}
    print_facts({name.replace("_", " "): value for name, value in description.items()})
    print_line()
    if columns is None:
        print_line("No columns yet: the first write decides.")
    else:
        print_table(
            ("column", "type", "null"),
            [(c["name"], c["type"], "yes" if c["nullable"] else "no") for c in columns],
        )
    if ingests:
        print_line()
        print_table(
            ("ingest", "landing prefix", "up to", "set aside"),
            [(ingest["name"], ingest["prefix"] or "-", ingest["up_to"], ingest["set_aside"] or "-")
             for ingest in ingests],
        )  # fmt: skip
    print_line()
    print_table(("property", "value"), properties.items())
    for message in problems:
        print_line(f"Note: {message}.")


def describe_table(table: HoodieTable) -> dict[str, Any]:
    """What `show` prints: definition, schema and counts, from properties, timeline and listing."""
    config = table.config
    timeline = table.timeline()
    schema_json = table.schemas.newest_json(timeline)
    buckets = recognise_buckets(table, timeline).layout
    return {
        "name": config.name,
        "uri": table.uri,
        "type": str(config.table_type),
        "version": config.version,
        "record_key": list(config.record_key_fields),
        "partition_by": list(config.partition_fields),
        "ordering": list(config.ordering_fields),
        "key_generator": key_generator_text(config),
        "merge_mode": merging_text(config),
        "timezone": _zone_text(table.instants.known_zone(timeline)),
        "index": config.index_type if buckets is None else IndexType.BUCKET.value,
        "buckets": None if buckets is None else str(buckets),
        "keys": described(table),
        **_counts(table, timeline),
        "columns": None if schema_json is None else avro_columns(schema_json),
        "ingests": describe_ingests(table, timeline),
        "settings_without_effect": [
            problem.message for problem in stored_problems(config.properties)
        ],
        "properties": dict(sorted(config.properties.items())),
    }


def _zone_text(known: KnownZone) -> str:
    """Whose clock the instants are, and how that is known."""
    if known.basis is ZoneBasis.NOT_UTC:
        return f"{offset_text(known.ahead_minutes)} from UTC, not declared: nothing is written"
    return f"{known.zone.name}: {known.basis.value}"


def _counts(table: HoodieTable, timeline: ActiveTimeline) -> dict[str, Any]:
    view = table.files.read_view(timeline)
    slices = [
        latest_slice
        for partition in view.partitions
        for latest_slice in view.latest_slices(partition)
    ]
    newest = timeline.writes().completed().last()
    return {
        "commits": len(timeline.writes().completed()),
        "pending": len(timeline.pending()),
        "latest_commit": None if newest is None else str(newest.time),
        "partitions": len({file_slice.group.partition for file_slice in slices}),
        "file_groups": len(slices),
        "size_bytes": sum(file_slice.size_bytes for file_slice in slices),
    }
