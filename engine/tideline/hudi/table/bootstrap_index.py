"""Bootstrapped tables: which source file each skeleton takes its columns from.

A bootstrap makes a table of files that are there already, without writing their rows again. Where
it is METADATA_ONLY, a base file has only Hudi's five columns, one row for each of the source file,
in its order; the rows' own columns stay in the source. An HFile in the table says which file that
is, by file group. Rows that are written later are in base files, and logs, as everywhere; what a
FULL_RECORD bootstrap makes are whole base files, too.

A source is where the index says, if `NamedPlaces` admits that: the index is the table's word. Where
a table was moved together with its sources, below it in a folder of their former name, they are
found there.
Source: Hudi's HFileBootstrapIndex, BootstrapFileMapping, HoodieTimeline.METADATA_BOOTSTRAP_INSTANT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.formats.hfile import decode_hfile
from tideline.hudi.table.file_group import FileGroupId, SourceFile
from tideline.storage.named_places import NamedPlaces, declared_places
from tideline.storage.object_store import ObjectStore

StorageOptions = tuple[tuple[str, str], ...]

INDEX_PATH = (
    ".hoodie/.aux/.bootstrap/.fileids/"
    "00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
)
_INFO = "INDEX_INFO"
_GROUP_KEY = ("part=", ";fileid=")
_NULL = "__HIVE_DEFAULT_PARTITION__"


def read_bootstrap_index(
    store: ObjectStore, options: StorageOptions = ()
) -> Mapping[FileGroupId, SourceFile]:
    """The source of each file group that has one, to be reached with `options`; none where there
    is no index.

    Raises CorruptTableError for an index that cannot be read.
    """
    try:
        body = store.get(INDEX_PATH)
    except ObjectNotFoundError:
        return {}
    with faults_named("the index of a bootstrapped table cannot be read", path=INDEX_PATH):
        index = decode_hfile(body, path=INDEX_PATH)
        base = str(decode_container(index.info[_INFO])["bootstrapBasePath"]).rstrip("/")
        places = NamedPlaces.of(store.uri, declared_places())
        return dict(
            _entry(key.decode(), decode_container(value), base, options, places)
            for key, value in index.entries
        )


def _entry(
    key: str, value: Mapping[str, Any], base: str, options: StorageOptions, places: NamedPlaces
) -> tuple[FileGroupId, SourceFile]:
    prefix, infix = _GROUP_KEY
    partition, found, file_id = key.removeprefix(prefix).partition(infix)
    if not key.startswith(prefix) or not found:
        raise CorruptTableError("a key of the index of a bootstrapped table is none", value=key)
    status, folder = value["bootstrapFileStatus"], str(value["bootstrapPartitionPath"] or "")
    uri = str(status["path"]["uri"])
    name = uri.rpartition("/")[2]
    moved = "/".join(filter(None, (base.rpartition("/")[2], folder, name)))
    length, values = int(status["length"]), tuple(_values(folder))
    source = SourceFile(uri, moved, length, values, options, places.root_of(uri))
    return FileGroupId(partition, file_id), source


def _values(folder: str) -> list[tuple[str, str | None]]:
    """What folders named `column=value` say, where the files leave the column out."""
    pairs = (level.partition("=") for level in folder.split("/"))
    return [
        (name, None if text == _NULL else unquote(text)) for name, found, text in pairs if found
    ]
