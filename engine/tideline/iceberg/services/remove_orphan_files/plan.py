"""What counts as an orphan, and what is left alone regardless of metadata; pure.

1. Files are the same when their paths are, and their schemes and authorities (buckets) are equal or
   declared equal: `s3a` and `s3n` are `s3` anyway, and a location without a scheme matches any.
   Same path but another scheme or authority is a mismatch: an error, ignored, or an orphan.
2. Files below a folder or of a name that begins with `_` or `.` are left alone, unless a partition
   field is called so.
3. Other tables' files are left alone: those below a folder that has metadata of its own or a
   `.hoodie`, and in a shared object storage folder those that do not carry this table's name.

Source: Iceberg's `DeleteOrphanFiles`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self
from urllib.parse import quote_plus

from tideline.errors import ConfigError
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.wording import counted, size_text

AGE_MS_DEFAULT = 3 * 24 * 60 * 60 * 1000
AGE_MS_MIN = 24 * 60 * 60 * 1000
_METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
DROPPED_TABLES = "dropped_tables"
"""Tideline's own setting: UUIDs of tables that were in the folder before, with commas between."""


class PrefixMismatch(Enum):
    """What to do with a file that metadata names with another scheme or authority."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From Iceberg's names in any case. Raises ConfigError."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            known = ", ".join(item.name for item in cls)
            raise ConfigError(f"prefix_mismatch_mode is one of {known}", value=text) from None


@dataclass(frozen=True, slots=True)
class OrphanOptions:
    """Which files to look at; None for `older_than_ms` means three days ago.

    `locations` are the folders to search, by default the table's own alone. `is_forced` allows for
    less than a day. `dropped_tables` are the UUIDs of tables that were in the table's folder before
    it: their metadata, and what it leads to, are orphans.
    """

    older_than_ms: int | None = None
    locations: tuple[str, ...] = ()
    equal_schemes: Mapping[str, str] = field(default_factory=dict)
    equal_authorities: Mapping[str, str] = field(default_factory=dict)
    prefix_mismatch: PrefixMismatch = PrefixMismatch.ERROR
    is_forced: bool = False
    dropped_tables: tuple[str, ...] = ()

    def cutoff_ms(self, now_ms: int) -> int:
        """Files changed before this moment may go. Raises ConfigError for less than a day."""
        if self.older_than_ms is None:
            return now_ms - AGE_MS_DEFAULT
        if not self.is_forced and now_ms - self.older_than_ms < AGE_MS_MIN:
            message = (
                "orphan files younger than 24 hours may belong to a commit under way: choose an "
                "earlier older_than, or force it when nothing else writes"
            )
            raise ConfigError(message, value=self.older_than_ms)
        return self.older_than_ms


@dataclass(frozen=True, slots=True)
class FileUri:
    """A location in three parts; None for a scheme or authority that it does not name."""

    scheme: str | None
    authority: str | None
    path: str


@dataclass(frozen=True, slots=True)
class UriRules:
    """Takes locations apart, names that are declared equal made one."""

    schemes: Mapping[str, str]
    authorities: Mapping[str, str]

    @classmethod
    def of(cls, options: OrphanOptions) -> UriRules:
        schemes = {"s3a": "s3", "s3n": "s3"} | _split(options.equal_schemes)
        return cls(schemes, _split(options.equal_authorities))

    def parse(self, uri: str) -> FileUri:
        """`scheme://authority/path`, `file:/path` or `/path`."""
        scheme, separator, rest = uri.partition(":")
        if not separator or "/" in scheme:
            return FileUri(None, None, uri)
        scheme = scheme.lower()
        scheme = self.schemes.get(scheme, scheme)
        if not rest.startswith("//"):
            return FileUri(scheme, None, rest)
        authority, _, path = rest[2:].partition("/")
        return FileUri(scheme, self.authorities.get(authority, authority) or None, f"/{path}")


class ReachablePaths:
    """Paths that metadata names, as hashes: two that collide only ever save an orphan."""

    def __init__(self) -> None:
        self._prefixes: list[frozenset[tuple[str | None, str | None]]] = []
        self._numbers: dict[frozenset[tuple[str | None, str | None]], int] = {}
        self._by_hash: dict[int, int] = {}

    def add(self, file: FileUri) -> None:
        """Remember a file."""
        key = hash(file.path)
        prefixes = frozenset({(file.scheme, file.authority)})
        known = self._by_hash.get(key)
        if known is not None:
            prefixes |= self._prefixes[known]
        number = self._numbers.get(prefixes)
        if number is None:
            number = self._numbers[prefixes] = len(self._prefixes)
            self._prefixes.append(prefixes)
        self._by_hash[key] = number

    def is_known(self, path: str) -> bool:
        """Whether metadata names the path, with any scheme."""
        return hash(path) in self._by_hash

    def mismatch(self, file: FileUri) -> str | None:
        """How metadata names the file's path otherwise, None when it names exactly the file."""
        prefixes = self._prefixes[self._by_hash[hash(file.path)]]
        if any(
            scheme in (None, file.scheme) and authority in (None, file.authority)
            for scheme, authority in prefixes
        ):
            return None
        scheme, authority = min(prefixes, key=str)
        return f"{scheme}://{authority or ''} and {file.scheme}://{file.authority or ''}"


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that nothing leads to."""

    location: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder of the table's data that other tables may keep files in as well, and the old files
    there that nothing of this table leads to: they stay."""

    location: str
    files: int
    size_bytes: int

    @property
    def words(self) -> str:
        """What was found, and why it stays."""
        found = f"{counted(self.files, 'old file')}, {size_text(self.size_bytes)}"
        return (
            f"left {found}, at {self.location} that nothing of this table leads to: other tables "
            "may keep files there; where none does, search it with --location"
        )


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """What would go, and how many files were looked at and left alone, by reason."""

    table_uuid: str
    snapshot_ids: frozenset[int]
    options: OrphanOptions
    cutoff_ms: int
    locations: tuple[str, ...]
    orphans: tuple[OrphanFile, ...]
    left_alone: Mapping[str, int]
    shared: tuple[SharedFolder, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes that would be free."""
        return sum(orphan.size_bytes for orphan in self.orphans)

    @property
    def shared_words(self) -> str:
        """What stays in folders that may be others' as well, as the end of a sentence."""
        return "".join(
            f"; {shared_folder.words}" for shared_folder in self.shared if shared_folder.files
        )


@dataclass(frozen=True, slots=True)
class HiddenPaths:
    """Recognises paths that Iceberg leaves alone."""

    partition_prefixes: tuple[str, ...]

    @classmethod
    def of(cls, specs: Iterable[PartitionSpec]) -> HiddenPaths:
        names = {
            partition_field.name
            for spec in specs
            for partition_field in spec.fields
            if partition_field.name[:1] in ("_", ".")
        }
        return cls(tuple(f"{quote_plus(name)}=" for name in sorted(names)))

    def hides(self, below: str) -> bool:
        """Whether a path below the listed folder is hidden."""
        return any(
            part[:1] in ("_", ".") and not part.startswith(self.partition_prefixes)
            for part in below.split("/")
        )


def metadata_folder(place: str) -> str | None:
    """The folder of a file that is table metadata, None for any other file."""
    return place.rpartition("/")[0] if place.endswith(_METADATA_SUFFIXES) else None


def _split(equal: Mapping[str, str]) -> dict[str, str]:
    """`{"a,b": "c"}` as `{"a": "c", "b": "c"}`."""
    return {
        part.strip(): value.strip() for names, value in equal.items() for part in names.split(",")
    }
