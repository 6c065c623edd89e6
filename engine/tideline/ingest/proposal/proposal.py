"""A LakeTable for the files of a folder, as one value: columns, keys, how the files are read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.ingest.column_type import ColumnType
from tideline.ingest.proposal.column_types import (
    ProposedColumn,
    find_null_value,
    parquet_columns,
    propose_columns,
    without_marker,
)
from tideline.ingest.proposal.key_evidence import KeyCounts, KeyProposal, propose_keys
from tideline.ingest.proposal.sample import Sample
from tideline.ingest.sources.files.listing import FileFormat
from tideline.wording import counted, counted_of

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HUDI = "_hoodie_"
_UNTRANSLATED = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}
_FEW_ROWS = 100


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column with the name that it has in the table."""

    name: str
    column: ProposedColumn

    @property
    def is_renamed(self) -> bool:
        return self.name != self.column.source


@dataclass(frozen=True, slots=True)
class Proposal:
    """What was found. `options` are read options; `remarks` what a person should know first."""

    sample: Sample
    columns: tuple[NamedColumn, ...]
    options: Mapping[str, str]
    keys: KeyProposal
    counts: KeyCounts = field(repr=False)
    remarks: tuple[str, ...] = ()

    @property
    def is_renamed(self) -> bool:
        """Whether names of columns take a transform."""
        return any(column.is_renamed for column in self.columns)

    @property
    def read_text(self) -> str:
        """How much was read: `2 of 3 files, 1,200 rows`."""
        sample = self.sample
        cut = ", the last in part" if sample.is_cut else ""
        files = counted_of(sample.files_read, sample.files, "file")
        return f"{files}{cut}, {counted(sample.rows, 'row')}"

    def with_types(self, types: Mapping[str, str]) -> Proposal:
        """With the types that a person has named, by either name of a column. Raises ConfigError
        for what is no type, and for a column that is not there."""
        wanted = dict(types)
        columns = []
        for column in self.columns:
            text = wanted.pop(column.name, None) or wanted.pop(column.column.source, None)
            if text is not None:
                column = replace(column, column=_typed(column.column, text))
            columns.append(column)
        if wanted:
            raise ConfigError(unknown_column(next(iter(wanted)), self.names))
        return replace(self, columns=tuple(columns))

    def with_keys(self, key: Sequence[str], ordering: Sequence[str] | None) -> Proposal:
        """With the columns that a person has named, where there are any, and what was counted."""
        for name in (*key, *(ordering or ())):
            if name not in self.counts.names:
                raise ConfigError(unknown_column(name, self.counts.names))
        keys = propose_keys(self.counts, key) if key else self.keys
        if ordering is not None:
            keys = replace(keys, ordering=tuple(ordering), ordering_evidence="")
        return replace(self, keys=keys)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def propose(sample: Sample, given: Mapping[str, str]) -> Proposal:
    """What the files of a sample would be; `given` are read options that a person has named."""
    options = _options(sample, given)
    remarks = []
    if sample.file_format is FileFormat.PARQUET:
        found = parquet_columns(sample.table.schema)
        null_value = None
    else:
        null_value = options.get("nullValue")
        if null_value is None and sample.dialect is not None:
            null_value = find_null_value(sample)
            if null_value is not None:
                options["nullValue"] = null_value
                remarks.append(f"{null_value} is taken for a missing value (nullValue)")
        found = propose_columns(sample, null_value)
    if sample.dialect is not None and not sample.dialect.has_header:
        remarks.append("the first line is a row and names no columns: name them in source.schema")
    if sample.bad_rows:
        wrong = counted(sample.bad_rows, "row")
        remarks.append(f"{wrong} with another number of values than columns: a bad file")
    if sample.rows < _FEW_ROWS:
        remarks.append(f"only {counted(sample.rows, 'row')} read: look at keys and types yourself")
    # An export of a Hudi table has the columns that Hudi adds: an ingest leaves them out.
    own = [column for column in found if not column.source.startswith(_HUDI)]
    names = column_names([column.source for column in own])
    columns = tuple(NamedColumn(*pair) for pair in zip(names, own, strict=True))
    counts = KeyCounts(
        {
            named_column.name: (
                _values(sample, named_column.column.source, null_value),
                named_column.column.type,
            )
            for named_column in columns
            if "<" not in named_column.column.type
        }
    )
    return Proposal(sample, columns, options, propose_keys(counts), counts, tuple(remarks))


def column_names(sources: Iterable[str]) -> list[str]:
    """Names that a table can have, each once: letters, digits and _; what already is one stays."""
    names: list[str] = []
    taken: set[str] = set()
    for source in sources:
        name = source if _IDENTIFIER.fullmatch(source) else _made(source)
        base, number = name, 2
        while name.lower() in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name.lower())
        names.append(name)
    return names


def unknown_column(name: str, names: Sequence[str]) -> str:
    """What to say about a column that is not there."""
    return f"there is no column {name}; there are {', '.join(names)}"


def _made(source: str) -> str:
    text = "".join(_UNTRANSLATED.get(letter, letter) for letter in source.lower())
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    return words if _IDENTIFIER.fullmatch(words) else f"column_{words}".rstrip("_")


def _options(sample: Sample, given: Mapping[str, str]) -> dict[str, str]:
    options = dict(given)
    present = {name.lower() for name in options}
    dialect = sample.dialect
    found: dict[str, str] = {}
    if dialect is not None:
        if dialect.sep != "," and "delimiter" not in present:
            found["sep"] = dialect.sep
        if dialect.encoding is not None and "charset" not in present:
            found["encoding"] = dialect.encoding
        if not dialect.has_header:
            found["header"] = "false"
    if sample.is_array:
        found["multiLine"] = "true"
    return {
        **{name: entry for name, entry in found.items() if name.lower() not in present},
        **options,
    }


def _typed(column: ProposedColumn, text: str) -> ProposedColumn:
    try:
        kind = str(ColumnType.parse(text))
    except ValueError as error:
        raise ConfigError(f"column {column.source}: {error}") from error
    return replace(column, type=kind, doubt="")


def _values(sample: Sample, name: str, null_value: str | None) -> pa.ChunkedArray:
    column = sample.table[name]
    return (
        column if sample.file_format is FileFormat.PARQUET else without_marker(column, null_value)
    )
