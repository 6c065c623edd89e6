"""An object store on a local folder, with the conditional writes of S3.

- A body goes to a `.tmp-<uuid>` file next to its target, is flushed to disk, and appears under its
  name in one step: a hard link where the name must be free, a rename where it may be replaced. So
  are the names of new folders that hold it. Empty objects (markers, heartbeats, requested instants)
  are not flushed: the file system's journal keeps their order, and the next body that is flushed
  takes them along.
- A process that replaces or removes an existing object holds an `flock` on that very file, so a
  compare-and-swap never interleaves with another write. A waiter that wakes up on a replaced file
  starts again with the new one.
- Hadoop's checksum sidecar (`.<name>.crc`) of a body we replace goes too, or Hadoop's readers would
  refuse the new one.
- A process that dies in the middle leaves its `.tmp-` file, which no listing shows. While it lives
  it holds an `flock` on it, which shows which ones will never be finished (unfinished_files.py).
- Links never take a path out of the folder (`real_path`), and only regular files are read and
  listed (`regular_file`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tideline.errors import (
    InvalidDataError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.storage.local.folders import flush_folder, make_folder, remove_tree
from tideline.storage.local.linking import link_or_copy
from tideline.storage.local.listing import info_of, list_files_after, list_level
from tideline.storage.local.real_path import real_path
from tideline.storage.local.regular_file import (
    open_lock_file,
    open_regular,
    open_to_write,
    read_range,
    read_whole,
    stat_regular,
)
from tideline.storage.object_store import (
    TEMPORARY_PREFIX,
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    UnsupportedRequestError,
    VersionedBody,
    Written,
    carries_token,
    checked_path,
    checked_prefix,
)

_BUFFER_SIZE_BYTES = 1024 * 1024
_VANISHED_FOLDERS_MAX = 20
_T = TypeVar("_T")
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class LocalStore:
    """Objects are the files below `root`, an absolute folder created on the first write."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (str(self._root),)

    @property
    def uri(self) -> str:
        return f"file://{self._root}"

    def get(self, path: str) -> bytes:
        with self._opened(path) as descriptor:
            return read_whole(descriptor, path=f"{self.uri}/{path}")

    def get_versioned(self, path: str) -> VersionedBody:
        with self._opened(path) as descriptor:
            body = read_whole(descriptor, path=f"{self.uri}/{path}")
            return VersionedBody(body, _version(body, os.fstat(descriptor)))

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        with self._opened(path) as descriptor:
            return read_range(descriptor, offset=offset, length=length)

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with self._reading(path):
                return info_of(path, stat_regular(self._root, checked_path(path)))
        except ObjectNotFoundError:
            return None

    def put(self, path: str, body: bytes) -> Written:
        with self._writing(path):
            return _while_folders_vanish(lambda: self._put(path, body))

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        with self._writing(path):
            created = _while_folders_vanish(lambda: self._create(path, body))
        return created or self._settle(path, body, token)

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        with self._writing(path), self._locked(path) as current:
            if current is None:
                return Changed()
            body_now = read_whole(current, path=f"{self.uri}/{path}")
            if _version(body_now, os.fstat(current)) != version:
                return Changed()
            try:
                with self._temporary(path, body) as (temporary, written):
                    self._publish(path, temporary, replacing=True, flush=bool(body))
                    return written
            except FileNotFoundError:
                return Changed()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        waiting = [checked_prefix(prefix)]
        while waiting:
            level = self.list_directory(waiting.pop())
            yield from level.objects
            waiting.extend(reversed(level.directories))

    def list_directory(self, prefix: str = "") -> Listing:
        directory = checked_prefix(prefix)
        try:
            with self._reading(directory):
                return list_level(self._root, directory)
        except ObjectNotFoundError:
            return Listing((), ())

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        with self._reading(""):
            yield from list_files_after(self._root, path)

    def delete(self, path: str) -> None:
        file = self._file(path)
        with self._writing(path), suppress(*_MISSING):
            if not stat.S_ISREG(file.lstat().st_mode):
                # The link itself, or what nobody should open.
                file.unlink()
                return
            with self._locked(path) as current:
                if current is not None:
                    file.unlink()
                    _checksum_sidecar(file).unlink(missing_ok=True)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        """Remove the whole tree, its folders included; the root folder itself stays."""
        directory = checked_prefix(prefix)
        with self._writing(directory):
            if directory:
                remove_tree(self._root / directory)
            elif self._root.is_dir():
                for entry in sorted(self._root.iterdir()):
                    if entry.is_dir() and not entry.is_symlink():
                        remove_tree(entry)
                    else:
                        entry.unlink(missing_ok=True)

    def take_copy(self, path: str, source: Path) -> None:
        """Create or replace the object as a copy of a file, by a link where the disk allows it."""
        with self._writing(path):
            target = self._file(path)
            make_folder(target.parent, flush=True)
            link_or_copy(source, target)
            flush_folder(target.parent)

    def open_reader(self, path: str) -> BinaryIO:
        file = self._file(path)
        with self._reading(path):
            descriptor = open_regular(self._root, path)
            return io.BufferedReader(_File(file, "rb", descriptor), _BUFFER_SIZE_BYTES)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return _Upload(self, self._file(path), path)

    def local_path(self, path: str) -> str | None:
        return str(self._file(path) if path else self._root)

    def _file(self, path: str) -> Path:
        return self._root / checked_path(path)

    def _put(self, path: str, body: bytes) -> Written:
        with self._temporary(path, body) as (temporary, written):
            while True:
                with self._locked(path) as current:
                    if self._publish(
                        path, temporary, replacing=current is not None, flush=bool(body)
                    ):
                        return written

    def _create(self, path: str, body: bytes) -> Written | None:
        if self._file(path).exists():
            return None
        with self._temporary(path, body) as (temporary, written):
            created = self._publish(path, temporary, replacing=False, flush=bool(body))
            return written if created else None

    def _settle(self, path: str, body: bytes, token: str | None) -> Written | AlreadyExists:
        if token is not None:
            with suppress(ObjectNotFoundError):
                stored = self.get_versioned(path)
                if carries_token(body, stored.body, token):
                    return Written(stored.version)
        return AlreadyExists()

    @contextmanager
    def _temporary(self, path: str, body: bytes) -> Iterator[tuple[Path, Written]]:
        """A flushed file holding `body` in the target's folder, removed again if still there."""
        folder = self._file(path).parent
        temporary = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4()}"
        try:
            make_folder(folder, flush=bool(body))
            with temporary.open("xb", buffering=0) as file, _held(file):
                if body:
                    _write_all(file, body)
                    os.fsync(file.fileno())
                yield temporary, Written(_version(body, os.fstat(file.fileno())))
        finally:
            temporary.unlink(missing_ok=True)

    def _publish(self, path: str, temporary: Path, *, replacing: bool, flush: bool) -> bool:
        """Give the temporary its name; False when the name is taken and may not be replaced."""
        target = self._file(path)
        if replacing:
            _checksum_sidecar(target).unlink(missing_ok=True)
            temporary.replace(target)
        else:
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                if target.is_symlink() and not target.exists():
                    message = "a link to nothing is where the object belongs: remove it"
                    raise UnsupportedTableError(message, path=target) from None
                return False
            _checksum_sidecar(target).unlink(missing_ok=True)
        if flush:
            flush_folder(target.parent)
        return True

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A descriptor of the object as it is now."""
        with self._reading(path):
            descriptor = open_regular(self._root, checked_path(path))
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def _locked(self, path: str) -> Iterator[int | None]:
        """A descriptor of the object as it is now, exclusively locked; None when there is none."""
        while True:
            try:
                descriptor = open_regular(self._root, checked_path(path))
            except FileNotFoundError:
                yield None
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_still(self._file(path), descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except _MISSING:
            raise ObjectNotFoundError("no such object", path=self._root / path) from None
        except OSError as error:
            raise _unavailable("read", self._root / path, error) from error

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        real_path(self._root, path)
        try:
            yield
        except OSError as error:
            raise _unavailable("write", self._root / path, error) from error


def _while_folders_vanish(write: Callable[[], _T]) -> _T:
    """Start again when another process removes the folder with the unfinished file in it."""
    for _ in range(_VANISHED_FOLDERS_MAX):
        with suppress(FileNotFoundError):
            return write()
    return write()


@contextmanager
def _held(file: io.FileIO) -> Iterator[None]:
    """Show that a process is still writing a file, where the file system has locks."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        # Explicitly: a forked child may still have the descriptor open.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _version(body: bytes, status: os.stat_result) -> str:
    # Time and inode alone repeat when a file is replaced twice within one tick of the kernel clock.
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    return f"{digest}-{status.st_mtime_ns}-{status.st_ino}"


def _write_all(file: io.FileIO, body: bytes) -> None:
    # A raw write stops short at a size limit or a full disk; the next one says why.
    rest = memoryview(body)
    while rest:
        rest = rest[file.write(rest) :]


def _checksum_sidecar(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


def _unavailable(action: str, file: Path, error: OSError) -> TidelineError:
    reason = error.strerror or type(error).__name__
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
        return InvalidDataError(f"the file system cannot hold this name: {reason}", path=file)
    if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK):
        return UnsupportedRequestError(f"cannot {action} local file: {reason}", path=file)
    return StorageUnavailableError(f"Cannot {action} local file: {reason}", path=file)


class _File(io.FileIO):
    """A raw file whose failures name it."""

    def __init__(self, file: Path, mode: str, descriptor: int) -> None:
        super().__init__(file, mode, opener=lambda *_: descriptor)
        self._path = file

    def readinto(self, buffer: Any, /) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise _unavailable("read", self._path, error) from error

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise _unavailable("read", self._path, error) from error

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _unavailable("write", self._path, error) from error


class _Upload:
    """Writes the target in place; removes it when the block fails."""

    def __init__(self, store: LocalStore, file: Path, path: str) -> None:
        self._store = store
        self._file = file
        self._path = path
        self._stream: io.BufferedWriter | None = None

    def __enter__(self) -> BinaryIO:
        with self._store._writing(self._path):
            make_folder(self._file.parent, flush=True)
            _checksum_sidecar(self._file).unlink(missing_ok=True)
            raw = _File(self._file, "wb", open_to_write(self._file))
            self._stream = io.BufferedWriter(raw, _BUFFER_SIZE_BYTES)
            return self._stream

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abort()
            return
        try:
            self._finish()
        except BaseException:
            self._abort()
            raise

    def _finish(self) -> None:
        if self._stream is not None:
            self._stream.close()
        with self._store._writing(self._path):
            descriptor = open_lock_file(self._file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            flush_folder(self._file.parent)

    def _abort(self) -> None:
        if self._stream is not None:
            with suppress(OSError, TidelineError):
                self._stream.close()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
