"""The object store contract: what every storage backend promises.

Paths are relative to the store's root and separated by '/'; the empty path is the root itself. Four
rules carry the rest of Tideline:

1. A `put*` is atomic: a reader sees the whole body or the previous one.
2. `put_if_absent` and `put_if_match` let exactly one of several racing callers win.
3. Listings and reads see every write that finished before they began.
4. Deleting something that is not there is fine.

Errors, on every method: `StorageUnavailableError` when the store cannot be reached, refuses us or
is full; `ConfigError` when the bucket or endpoint is wrong; `UnsupportedRequestError` when the
store says that it does not do this at all; `InvalidDataError` for a path that no store can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from tideline.errors import ConfigError, InvalidDataError

TEMPORARY_PREFIX = ".tmp-"
"""Names of half-written local objects begin so: hidden from listings, refused from callers."""


class UnsupportedRequestError(ConfigError):
    """The store is reachable and says that it has no such request: another store is needed."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a listing shows it; `version` only where the store gives it for free."""

    path: str
    size_bytes: int
    modified_ms: int
    version: str | None


@dataclass(frozen=True, slots=True)
class VersionedBody:
    """A body and the version to hand to `put_if_match`."""

    body: bytes
    version: str


@dataclass(frozen=True, slots=True)
class Written:
    """The write took place; `version` identifies exactly this body."""

    version: str


@dataclass(frozen=True, slots=True)
class AlreadyExists:
    """`put_if_absent` found an object that this attempt did not write."""


@dataclass(frozen=True, slots=True)
class Changed:
    """`put_if_match` found another version, or no object at all."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One level of a tree: its objects, and the paths (no trailing slash) of its directories."""

    objects: tuple[ObjectInfo, ...]
    directories: tuple[str, ...]


class ObjectStore(Protocol):
    """Flat storage of immutable bodies under '/'-separated paths."""

    @property
    def uri(self) -> str:
        """Where the root is; never holds credentials."""

    def get(self, path: str) -> bytes:
        """The whole body, for metadata. Raises ObjectNotFoundError, and UnsupportedTableError for
        an object above the limit on metadata (`read_limits`), which is not read at all."""

    def get_versioned(self, path: str) -> VersionedBody:
        """The body together with its version. Raises what `get` raises."""

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`, fewer past the end. Raises ObjectNotFoundError."""

    def head(self, path: str) -> ObjectInfo | None:
        """Size and time of one object, or None when it is not there."""

    def put(self, path: str, body: bytes) -> Written:
        """Create or replace the object."""

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        """Create the object unless it exists.

        `token` (ASCII, unique to the attempt) settles replies that the network lost: when the
        object turns out to exist and carries this token, the answer is Written. A
        StorageUnavailableError leaves the outcome unknown; calling again with the same token is
        safe. Without a token a won write whose reply was lost is reported as AlreadyExists.
        """

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        """Replace the object if it still has `version`.

        `version` comes from `get_versioned` or `Written`. Changed may also be the answer to a won
        write whose reply was lost; StorageUnavailableError leaves the outcome unknown.
        """

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below the directory `prefix`, at any depth, lazily, in no promised order."""

    def list_directory(self, prefix: str = "") -> Listing:
        """One level of the directory `prefix`, sorted; empty when it does not exist."""

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        """Every object whose path sorts after `path`, by code points, lazily, in no promised
        order; empty ones may be left out. Costs no more where many objects sort before it."""

    def delete(self, path: str) -> None:
        """Remove the object; a missing one is fine."""

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove many objects, in as few requests as the store allows; not atomic."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object below the directory `prefix`; not atomic."""

    def open_reader(self, path: str) -> BinaryIO:
        """A seekable stream over the object. Raises ObjectNotFoundError."""

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A stream into a new object, complete when the `with` block ends.

        An exception inside the block aborts it and no object remains. After a crash a local folder
        may hold a partial object; markers let a rollback find it.
        """

    def local_path(self, path: str) -> str | None:
        """The native file path when the store is a local folder, else None."""


def checked_path(path: str) -> str:
    """`path` itself, when it can name an object in every store.

    Raises InvalidDataError for empty, '.' and '..' segments, control characters, lone surrogates
    (what Python makes of file names that are not UTF-8) and reserved names.
    """
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise InvalidDataError("path has an empty, '.' or '..' segment", path=path)
    if any(character < " " or character == "\x7f" for character in path):
        raise InvalidDataError("path has a control character", path=ascii(path))
    if not path.isascii() and any("\ud800" <= character <= "\udfff" for character in path):
        raise InvalidDataError("path is not valid Unicode", path=ascii(path))
    if path.rpartition("/")[2].startswith(TEMPORARY_PREFIX):
        raise InvalidDataError(f"names beginning with {TEMPORARY_PREFIX!r} are reserved", path=path)
    return path


def is_possible_path(path: str) -> bool:
    """Whether `checked_path` takes it."""
    try:
        checked_path(path)
    except InvalidDataError:
        return False
    return True


def checked_prefix(prefix: str) -> str:
    """Like `checked_path`, but the empty path is the root and one trailing slash is dropped."""
    directory = prefix.removesuffix("/")
    return checked_path(directory) if directory else ""


def carries_token(body: bytes, stored: bytes, token: str | None) -> bool:
    """Whether `stored` is `body`, and unique to `token`: no other process can have written it."""
    return token is not None and token.encode("ascii") in body and stored == body
