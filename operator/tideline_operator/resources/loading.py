"""Resource files of `tideline run`: read, checked as a whole, and resolved to real locations.

Relative paths are relative to the folder of their file. Documents of other API groups (a Namespace,
a Secret) are skipped and named in the result.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.storage.egress.client_files import ClientFiles
from tideline_operator.resources.documents import Document, read_documents
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_source import LakeSource
from tideline_operator.resources.lake_store import LakeStore, LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.metadata import API_VERSION
from tideline_operator.resources.parsing import parse_resource
from tideline_operator.resources.resolved import ResolvedCatalog, ResolvedSource, ResolvedTable
from tideline_operator.resources.resolving import resolve_table
from tideline_operator.resources.sources.place_finder import overlaps

_KINDS = {kind.KIND: kind for kind in (LakeTable, LakeCatalog, LakeSource, LakeStore)}
_Resource: TypeAlias = LakeTable | LakeCatalog | LakeSource | LakeStore
_Parsed: TypeAlias = tuple[Path, Document, _Resource]
_Stores: TypeAlias = Mapping[str, Mapping[str, LakeStoreSpec]]
_HasTables = TypeVar("_HasTables", LakeCatalog, LakeSource)
_Found = TypeVar("_Found")
_GROUP = API_VERSION.split("/")[0]


@dataclass(frozen=True, slots=True)
class ResourceSet:
    """Everything a set of files declares."""

    tables: tuple[ResolvedTable, ...]
    catalogs: tuple[ResolvedCatalog, ...]
    sources: tuple[ResolvedSource, ...]
    stores: tuple[LakeStore, ...]
    files: tuple[Path, ...]
    skipped: tuple[str, ...]


def load_resources(
    paths: Iterable[Path],
    *,
    ca_bundle: str | None = None,
    client_files: ClientFiles | None = None,
) -> ResourceSet:
    """Read every file, and every .yaml and .yml in every folder, of `paths`.

    `ca_bundle` is the file with the authorities an S3 endpoint's certificate is checked against,
    `client_files` those of the certificate that is shown there.
    Raises ConfigError listing all that is wrong in all of them.
    """
    files = tuple(file for path in paths for file in _files_of(path))
    problems: list[str] = []
    parsed: list[_Parsed] = []
    skipped: list[str] = []
    for file in files:
        for document in _read(file, problems):
            try:
                kind = _kind_of(document)
                if kind is None:
                    skipped.append(_other_kind(document))
                    continue
                parsed.append((file, document, parse_resource(kind, document)))
            except ConfigError as error:
                problems.append(str(error))
    stores = _stores_of(parsed, problems)
    resolve = partial(resolve_table, ca_bundle=ca_bundle, client_files=client_files)
    tables = _resolve_tables(parsed, stores, resolve, problems)
    shared = (parsed, stores, resolve, problems)
    catalogs = _with_tables(LakeCatalog, ResolvedCatalog.of, *shared)
    sources = _with_tables(LakeSource, ResolvedSource.of, *shared)
    problems += _slots_shared(tables, sources)
    if problems:
        raise ConfigError(";\n".join(problems))
    if not tables and not catalogs and not sources:
        shown = ", ".join(str(path) for path in files) or "no file"
        raise ConfigError(
            f"no LakeTable, LakeCatalog or LakeSource (apiVersion {API_VERSION}) in {shown}"
        )
    found = tuple(item for _, _, item in parsed if isinstance(item, LakeStore))
    return ResourceSet(tuple(tables), tuple(catalogs), tuple(sources), found, files, tuple(skipped))


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
        if not found:
            raise ConfigError("no .yaml or .yml file in this folder", path=path)
        return found
    return [path]


def _read(file: Path, problems: list[str]) -> tuple[Document, ...]:
    try:
        return read_documents(file.read_text(encoding="utf-8"), file=str(file))
    except FileNotFoundError:
        problems.append(f"{file}: no such file")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file}: cannot be read: {error}")
    except ConfigError as error:
        problems.append(str(error))
    return ()


def _kind_of(document: Document) -> type[_Resource] | None:
    place = f"{document.file}, document {document.number}"
    if not isinstance(document.value, Mapping):
        raise ConfigError(
            f"{place}: is not a mapping; allowed: a resource with apiVersion and kind"
        )
    version, kind = document.value.get("apiVersion"), document.value.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        raise ConfigError(f"{place}: apiVersion and kind are required, as text")
    if version != API_VERSION:
        if version.split("/")[0] == _GROUP or kind in _KINDS:
            raise ConfigError(f"{place}: apiVersion: {version!r}; allowed: {API_VERSION}")
        return None
    if kind in _KINDS:
        return _KINDS[kind]
    near = difflib.get_close_matches(kind, _KINDS, 1)
    guess = f", did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{place}: kind: {kind!r}; allowed: {', '.join(_KINDS)}{guess}")


def _other_kind(document: Document) -> str:
    kind = cast("Mapping[str, object]", document.value)["kind"]
    return f"{kind} ({document.file}, document {document.number})"


def _stores_of(parsed: list[_Parsed], problems: list[str]) -> _Stores:
    """The LakeStores of each namespace; every resource is declared once."""
    stores: dict[str, dict[str, LakeStoreSpec]] = defaultdict(dict)
    seen: dict[str, str] = {}
    for _, document, resource in parsed:
        name = f"{resource.KIND} {resource.metadata}"
        if name in seen:
            problems.append(f"{_where(document)}: {name} is already in {seen[name]}")
        seen.setdefault(name, _where(document))
        if isinstance(resource, LakeStore):
            stores[resource.metadata.namespace][resource.metadata.name] = resource.spec
    return stores


def _resolve_tables(
    parsed: list[_Parsed],
    stores: _Stores,
    resolve: Callable[..., ResolvedTable],
    problems: list[str],
) -> list[ResolvedTable]:
    tables: list[ResolvedTable] = []
    locations: dict[str, str] = {}
    for file, document, resource in parsed:
        if not isinstance(resource, LakeTable):
            continue
        known = stores.get(resource.metadata.namespace, {})
        try:
            table = resolve(resource, known, folder=file.parent)
        except ConfigError as error:
            problems.append(f"{_where(document)}: {error}")
            continue
        other = locations.setdefault(table.address, table.name)
        if other != table.name:
            problems.append(
                f"{_where(document)}: spec.location: {table.address} already belongs to "
                f"LakeTable {other}; one table has one LakeTable"
            )
        problems += (f"{_where(document)}: {text}" for text in _emptied(table, tables))
        tables.append(table)
    return tables


def _with_tables(
    kind: type[_HasTables],
    made: Callable[[_HasTables, Callable[[LakeTable], ResolvedTable]], _Found],
    parsed: list[_Parsed],
    stores: _Stores,
    resolve: Callable[..., ResolvedTable],
    problems: list[str],
) -> list[_Found]:
    """Resources of a kind that has tables, each `made` with what resolves these."""
    found: list[_Found] = []
    for file, document, resource in parsed:
        if not isinstance(resource, kind):
            continue
        known = stores.get(resource.metadata.namespace, {})
        own = partial(resolve, stores=known, folder=file.parent)
        try:
            found.append(made(resource, own))
        except ConfigError as error:
            problems.append(f"{_where(document)}: {error}")
    return found


def _slots_shared(
    tables: Iterable[ResolvedTable], sources: Iterable[ResolvedSource]
) -> Iterator[str]:
    """Slots that two resources would move."""
    named = [
        (f"LakeTable {table.name}", source)
        for table in tables
        for source in table.sources.values()
        if isinstance(source, DeclaredPostgres)
    ]
    named += [(f"LakeSource {source.name}", source.declared) for source in sources]
    owners: dict[tuple[str, str], str] = {}
    for name, source in named:
        owner = owners.setdefault((source.connection, source.slot), name)
        if owner != name:
            yield (
                f"{name}: slot {source.slot} is {owner}'s: give it another one, or read all tables "
                "with one LakeSource"
            )


def _emptied(table: ResolvedTable, others: Iterable[ResolvedTable]) -> Iterator[str]:
    """Landing prefixes that two tables read, and one of them empties."""
    for other in others:
        for own, theirs in product(table.spec.ingest, other.spec.ingest):
            mine, its = table.sources[own.name], other.sources[theirs.name]
            place = next(
                (
                    own_place
                    for own_place, their_place in product(mine.places, its.places)
                    if (mine.settles or its.settles) and overlaps(own_place.uri, their_place.uri)
                ),
                None,
            )
            if place is not None:
                yield (
                    f"spec.ingest: {place.uri} is also read by ingest {theirs.name!r} of LakeTable "
                    f"{other.name}, and files are taken away from it (source.taken): keep them, or "
                    "give each table its own landing prefix"
                )


def _where(document: Document) -> str:
    return f"{document.file}, document {document.number}"
