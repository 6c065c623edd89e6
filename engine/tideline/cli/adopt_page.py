"""An adoption report as people read it, on lines of at most 80 characters where words allow it.

It begins with what the table is and ends with what to do next: commands that can be typed as they
are printed, so their lines are never broken.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from tideline.hudi.adoption.adoption_report import AdoptionReport
from tideline.hudi.adoption.table_state import TableState
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.capabilities.table_capabilities import (
    TableCapabilities,
    key_generator_text,
    merging_text,
)
from tideline.hudi.timeline.known_zone import KnownZone, ZoneBasis
from tideline.iceberg.adoption import IcebergAdoptionReport
from tideline.iceberg.services.registry import all_services
from tideline.wording import counted, size_text

WIDTH = 80
_NAMES = 16


def hudi_page(report: AdoptionReport, arguments: Sequence[str]) -> Iterator[str]:
    """The lines of a Hudi table's report; `arguments` name the table on a command line."""
    capabilities, state = report.capabilities, report.state
    config = capabilities.config
    kind = str(config.table_type).replace("_", " ").lower()
    yield capabilities.uri
    yield from _text(f"A Hudi table of version {config.version}, {kind}.")
    if capabilities.is_refused:
        refusal = capabilities.may(Permission.READ)
        yield ""
        yield from _text(f"Tideline does nothing with it: {'' if not refusal else refusal.reason}.")
    yield ""
    yield from _facts(_capabilities_facts(capabilities))
    if state is not None:
        yield ""
        yield from _facts(_state_facts(state))
        yield ""
        yield "What Tideline may do with it:"
        yield from _permissions(capabilities)
    if report.consequences:
        yield ""
        yield "What to know before it does:"
        for consequence in report.consequences:
            yield from _item(f"{_sentence(consequence.what)} {_sentence(consequence.do)}")
    said = capabilities.zone.warning if capabilities.zone is not None else None
    warnings = [text for text in capabilities.warnings if text != said]
    warnings += () if state is None else state.unreadable
    if warnings:
        yield ""
        yield "Noted:"
        for text in dict.fromkeys(warnings):
            yield from _item(_sentence(text))
    if report.next_steps:
        yield ""
        yield "Next:"
    for step in report.next_steps:
        yield from _item(f"{step.why[:1].upper()}{step.why[1:]}:")
        yield f"    tideline {step.command} {_quoted((*arguments, *step.arguments))}"


def iceberg_page(report: IcebergAdoptionReport, arguments: Sequence[str]) -> Iterator[str]:
    """The lines of an Iceberg table's report."""
    yield report.uri
    shown = report.to_json_object()
    if report.is_refused:
        yield from _text(f"An Iceberg table. Tideline does nothing with it: {report.refusal}.")
        if report.remedy:
            yield from _text(_sentence(report.remedy))
        return
    yield from _text(f"An Iceberg table of format version {shown['format_version']}.")
    yield ""
    size_bytes = shown["size_bytes"]
    yield from _facts(
        {
            "schemas": f"{shown['schemas']}, columns by their ids",
            "partitions": ", ".join(shown["partition_by"]) or "none",
            "snapshots": f"{shown['snapshots']}; refs: {', '.join(shown['refs']) or 'none'}",
            "data files": shown["data_files"],
            "delete files": shown["delete_files"],
            "size": None if size_bytes is None else size_text(size_bytes),
        }
    )
    yield ""
    yield "What Tideline may do with it:"
    refused = {
        iceberg_service: reason
        for iceberg_service in all_services()
        if (reason := report.may(iceberg_service))
    }
    allowed = [service.name for service in all_services() if service not in refused]
    if allowed:
        yield from _named("yes", ", ".join(allowed))
    for service, reason in refused.items():
        yield from _named("no", service.name)
        yield from _text(_sentence(reason), indent=7)
    yield ""
    yield "Next:"
    for why, command in report.next_steps:
        yield from _item(f"{why[:1].upper()}{why[1:]}:")
        yield f"    tideline {command} {_quoted(arguments)}"


def _capabilities_facts(capabilities: TableCapabilities) -> dict[str, object]:
    config = capabilities.config
    index = capabilities.index
    schema, writers = capabilities.schema, capabilities.writers
    history = "ids, as ALTER TABLE keeps them" if schema.by_ids else "names"
    columns = "" if schema.columns is None else f"{counted(schema.columns, 'column')}, "
    return {
        "name": config.name or None,
        "record key": ", ".join(config.record_key_fields) or "none",
        "partitions by": ", ".join(config.partition_fields) or "nothing",
        "ordering": ", ".join(config.ordering_fields) or None,
        "key generator": key_generator_text(config),
        "merging": merging_text(config),
        "changes": "logged next to the rows (CDC)" if config.logs_changes else None,
        "index": None if capabilities.zone is None else _index_text(index.name, index.known_from,
                                                              index.buckets),
        "keys": index.keys,
        "time zone": None if capabilities.zone is None else _zone_text(capabilities.zone),
        "schema": None if capabilities.zone is None else f"{columns}columns by {history}",
        "metadata table": ", ".join(config.metadata_partitions) or "off",
        "last writes": ", ".join(writers.operations).lower() or None,
        "commits carry": ", ".join(writers.keys) or None,
        "lock": f"{writers.lock}, by {writers.lock_known_from}" if writers.lock else None,
    }  # fmt: skip


def _zone_text(known: KnownZone) -> str:
    if known.basis is ZoneBasis.UNSURE:
        return f"not known, taken for UTC: {known.basis.value}"
    return f"{known.reading_zone}: {known.basis.value}"


def _index_text(name: str | None, known_from: str, buckets: object) -> str:
    if name is None:
        return f"each writer's own choice: {known_from}"
    return f"{name}: {buckets}" if buckets is not None else f"{name}, known by {known_from}"


def _state_facts(state: TableState) -> dict[str, object]:
    files = state.files
    pending = [
        f"{found.instant.time} {found.instant.action} {found.instant.state.value.lower()}"
        f"{', no sign of life' if found.is_silent else ''}"
        for found in state.pending
    ]
    archive = "; older ones are archived" if state.has_archive else ""
    foreign = state.foreign
    facts: dict[str, object] = {
        "commits": f"{state.commits}, the newest {state.newest or '-'}{archive}",
        "pending": pending or "nothing",
        "savepoints": list(state.savepoints) or None,
    }
    if files is not None:
        facts |= {
            "partitions": files.partitions,
            "file groups": f"{files.file_groups}, {files.groups_with_logs} of them with logs",
            "base files": f"{files.base_files}, {files.small_files} of them inserts would fill",
            "log files": files.log_files,
            "change logs": files.change_logs or None,
            "size": size_text(files.size_bytes),
        }
    examples = ", ".join(foreign.examples)
    return facts | {
        "all versions": f"{counted(state.stored_files, 'data file')}, "
        f"{size_text(state.stored_bytes)}",
        "published": f"as Iceberg, {counted(state.published_files, 'file')} in metadata/"
        if state.published_files
        else None,
        "nested tables": [f"{root} ({name})" for root, name in sorted(foreign.nested.items())]
        or None,
        "foreign files": f"{foreign.count:,}, such as {examples}" if foreign.count else None,
    }


def _permissions(capabilities: TableCapabilities) -> Iterator[str]:
    allowed = [
        permission.sentence for permission in Permission if capabilities.may(permission) is None
    ]
    if allowed:
        yield from _named("yes", ", ".join(allowed))
    refused: dict[Refusal, list[str]] = {}
    for operation, refusal in capabilities.refusals.items():
        refused.setdefault(refusal, []).append(operation.sentence)
    for refusal, names in refused.items():
        yield from _named("no", ", ".join(names))
        value = (
            f" ({refusal.value})" if refusal.value and refusal.value not in refusal.reason else ""
        )
        yield from _text(_sentence(f"{refusal.reason}{value}"), indent=7)
        if refusal.declare:
            yield from _text(f"Declare {refusal.declare}, as {refusal.where}.", indent=7)
        elif refusal.remedy:
            yield from _text(_sentence(refusal.remedy), indent=7)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _quoted(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _facts(facts: Mapping[str, object]) -> Iterator[str]:
    for name, value in facts.items():
        if value is None:
            continue
        for number, item in enumerate(value if isinstance(value, list) else [value]):
            label = "" if number else name
            text = f"{item:,}" if isinstance(item, int) else str(item)
            yield from _wrapped(text, f"  {label:<{_NAMES}}", " " * (_NAMES + 2))


def _named(word: str, text: str) -> Iterator[str]:
    return _wrapped(text, f"  {word:<5}", " " * 7)


def _item(text: str) -> Iterator[str]:
    return _wrapped(text, "- ", "  ")


def _text(text: str, indent: int = 0) -> Iterator[str]:
    return _wrapped(text, " " * indent, " " * indent)


def _wrapped(text: str, first: str, others: str) -> Iterator[str]:
    """Lines that are broken between words only: paths and settings stay whole."""
    lines = wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from lines or [first.rstrip()]
