"""`tideline init`: a LakeTable from files that lie in a folder, or below a prefix in a bucket."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option, is_asked
from tideline.cli.options import json_option, parse_pairs, split_names, storage_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import end_progress
from tideline.errors import ConfigError
from tideline.ingest.proposal.places import Names, landing_location, names_of
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.files.read_options import require_known
from tideline.storage.object_store import ObjectStore
from tideline.wording import counted

if TYPE_CHECKING:
    from tideline.ingest.proposal.proposal import Proposal

_OTHER_ENDINGS = (".tsv", ".txt", ".psv", ".dat")


@command("init")
@click.argument("folder_name", metavar="FOLDER")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("laketable.yaml"),
    show_default=True,
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@click.option("--name", help="The table's name; otherwise the folder's.")
@click.option("--location", metavar="PATH", help="The table's folder; otherwise one beside FOLDER.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([candidate.value for candidate in FileFormat]),
    help="Which files to take in, where there are several kinds.",
)
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="How files are read, such as sep=; or header=false, where that is found wrongly; may be "
    "repeated.",
)
@click.option("--record-key", metavar="COLUMNS", help="What identifies a row.")
@click.option(
    "--ordering", metavar="COLUMNS", help="Of two versions of a row the higher value wins; '' none."
)
@click.option("--partition-by", metavar="COLUMNS", help="What decides a row's folder.")
@click.option(
    "--type",
    "types",
    metavar="COLUMN=TYPE",
    multiple=True,
    help="The type of a column, where it is found wrongly; may be repeated.",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing, take what is proposed.")
@dry_run_option("Print the file; write nothing.")
@json_option
@storage_options
def init_command(
    folder_name: str,
    storage: dict[str, str],
    as_json: bool,
    yes: bool,
    dry_run: bool,
    **asked: Any,
) -> None:
    """Write a LakeTable for the files in FOLDER, which may be s3://BUCKET/PREFIX.

    It reads some of the files, finds out how they are written, proposes types for their columns,
    and a record key and an ordering with what was counted. On a terminal it asks for these; nothing
    but the file is written. COLUMNS are names separated by commas. For a store such as S3 a
    LakeStore is written as well; credentials come from the environment.
    """
    folder = landing_location(folder_name, storage)
    output: Path = asked["output"]
    if output.exists() and not (asked["force"] or dry_run):
        raise ConfigError("this file exists: name another with -o, or give --force", path=output)
    # Arrow is an optional dependency.
    from tideline.ingest.proposal.lake_table_text import lake_table_text
    from tideline.ingest.proposal.proposal import propose
    from tideline.ingest.proposal.sample import read_sample

    store = folder.open()
    file_format, landing = _landing(store, folder_name, asked["format_name"])
    given = parse_pairs(asked["options"], option="--option")
    require_known(file_format, given)
    proposal = propose(read_sample(store, landing, file_format, given), given)
    proposal = proposal.with_types(parse_pairs(asked["types"], option="--type"))
    names = names_of(folder, output, storage, name=asked["name"], location=asked["location"])
    if not as_json:
        _show(proposal)
    proposal = _with_keys(proposal, asked, asks=is_asked(yes=yes or as_json))
    partition_by = split_names(asked["partition_by"])
    _require_columns(proposal, partition_by)
    text = lake_table_text(proposal, names, partition_by)
    if not dry_run:
        output.write_text(text, "utf-8")
    strangers = landing.describe_others()
    if as_json:
        document = _document(proposal, names, output, strangers)
        print_json({**document, "text": text, "dry_run": dry_run})
        return
    print_line(f"record key: {', '.join(proposal.keys.key)}: {proposal.keys.key_evidence}.")
    if proposal.keys.ordering or proposal.keys.ordering_evidence:
        ordering = ", ".join(proposal.keys.ordering) or "none"
        print_line(f"ordering: {ordering}: {proposal.keys.ordering_evidence}.".replace(": .", "."))
    for remark in (*proposal.remarks, *([strangers] if strangers else [])):
        print_line(f"Note: {remark}.")
    if dry_run:
        print_line(f"\nNothing is written; without --dry-run {output} would be:\n\n{text}".rstrip())
        return
    print_line(f"Wrote {output}. What a run would do: tideline run -f {output} --dry-run")


def _landing(
    store: ObjectStore, folder: str, format_name: str | None
) -> tuple[FileFormat, FileListing]:
    """The files to take in. Raises ConfigError where there are none, or several kinds."""
    landings = {
        file_format: _with_set_aside(list_arrived(store, file_format)) for file_format in FileFormat
    }
    if format_name is not None:
        chosen = FileFormat(format_name)
    else:
        found = {file_format: landing for file_format, landing in landings.items() if landing.files}
        if len(found) > 1:
            kinds = " and ".join(
                f"{counted(len(landing.files), 'file')} of {file_format}"
                for file_format, landing in found.items()
            )
            raise ConfigError(f"there are {kinds}: say which to take in, --format", path=folder)
        chosen = next(iter(found), FileFormat.CSV)
    landing = landings[chosen]
    if not landing.files:
        raise ConfigError(_nothing(landing, chosen, format_name), path=folder)
    return chosen, landing


def _with_set_aside(landing: FileListing) -> FileListing:
    """Files that a run has set aside as well: how they are read may have been at fault."""
    files = sorted((*landing.files, *landing.quarantined), key=lambda file: file.arrival)
    return replace(landing, files=tuple(files))


def _nothing(landing: FileListing, chosen: FileFormat, format_name: str | None) -> str:
    formats = [chosen] if format_name is not None else list(FileFormat)
    endings = ", ".join(
        ending
        for file_format in formats
        for ending in file_format.endings
        if ending.count(".") == 1
    )
    others = Counter(Path(path).suffix.lower() for path in landing.strangers)
    text = next((ending for ending in _OTHER_ENDINGS if ending in others), None)
    if text is not None:
        files = counted(others[text], "file")
        return f"{files} named *{text}: text with separators is taken in where names end in .csv"
    return f"there is no file to take in: their names end in {endings}"


def _show(proposal: Proposal) -> None:
    """The columns as a table, with how the files are read."""
    print_line(f"{proposal.sample.file_format}: {proposal.read_text} read.")
    for name, value in proposal.options.items():
        print_line(f"{name}: {value!r}")
    rows = [
        (
            column.name,
            column.column.type,
            column.column.empty,
            column.column.doubt or column.column.note,
        )
        for column in proposal.columns
    ]
    print_table(("column", "type", "empty", "evidence"), rows)


def _with_keys(proposal: Proposal, asked: Mapping[str, Any], *, asks: bool) -> Proposal:
    """The proposal with a key and an ordering that were given, asked for, or proposed."""
    key = split_names(asked["record_key"])
    ordering = split_names(asked["ordering"]) if asked["ordering"] is not None else None
    if asks:
        end_progress()
        types = click.prompt("other types, as COLUMN=TYPE with a comma between", "", err=True)
        proposal = proposal.with_types(parse_pairs(_pairs(types), option="a type"))
        if not key:
            print_line(f"{proposal.keys.key_evidence}.")
            key = _asked("record key", proposal.keys.key)
    proposal = proposal.with_keys(key, ordering)
    if asks and ordering is None:
        print_line(f"{proposal.keys.key_evidence}.\n{proposal.keys.ordering_evidence}.")
        chosen = _asked("ordering, - for none", proposal.keys.ordering or ("-",))
        proposal = proposal.with_keys(key, () if chosen == ("-",) else chosen)
    if not proposal.keys.key:
        found = proposal.keys.key_evidence or "no column is filled in every row"
        raise ConfigError(
            f"no column, and no two or three together, are unique in the {proposal.read_text} read "
            f"({found}): name what identifies a row, --record-key"
        )
    return proposal


def _asked(question: str, proposed: tuple[str, ...]) -> tuple[str, ...]:
    return split_names(click.prompt(question, ",".join(proposed) or None, err=True))


def _pairs(text: str) -> tuple[str, ...]:
    # The comma of decimal(12,2) is none between two columns.
    return tuple(part.strip() for part in re.split(r",(?=\s*\w+\s*=)", text) if part.strip())


def _require_columns(proposal: Proposal, names: tuple[str, ...]) -> None:
    from tideline.ingest.proposal.proposal import unknown_column

    for name in names:
        if name not in proposal.names:
            raise ConfigError(unknown_column(name, proposal.names))


def _document(
    proposal: Proposal, names: Names, output: Path, strangers: str | None
) -> dict[str, Any]:
    sample, keys = proposal.sample, proposal.keys
    return {
        "file": str(output),
        "name": names.name,
        "format": sample.file_format.value,
        "files": sample.files,
        "files_read": sample.files_read,
        "rows_read": sample.rows,
        "options": dict(proposal.options),
        "record_key": list(keys.key),
        "record_key_evidence": keys.key_evidence,
        "ordering": list(keys.ordering),
        "ordering_evidence": keys.ordering_evidence,
        "columns": [
            {
                "name": column.name,
                "source": column.column.source,
                "type": column.column.type,
                "empty": column.column.empty,
                "evidence": column.column.note,
                "confirm": column.column.doubt,
            }
            for column in proposal.columns
        ],
        "notes": [*proposal.remarks, *([strangers] if strangers else [])],
    }
