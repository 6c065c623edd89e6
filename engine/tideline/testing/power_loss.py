"""What a folder holds after the power failed: only what was flushed, as a file system may leave it.

Inside a `with` block every `os.fsync` is a moment at which the power may fail. For each moment, and
for the end, the recorder keeps what would be left of the folder:

1. contents: of a file what its last fsync saw, nothing of one that was never flushed;
2. names: how many survive differs between file systems, see `Names`.

File descriptors of flushed files stay open to the end, so that the kernel does not give an inode
number away again that contents are remembered by.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tideline.storage.object_store import TEMPORARY_PREFIX, ObjectStore
from tideline.testing.fault_counts import FaultClass, count_fault


class Names(Enum):
    """Which creations, renames and removals of names survive."""

    FLUSHED = "flushed"
    """Those in a folder that was flushed afterwards itself: all that POSIX promises."""
    JOURNALED = "journaled"
    """All that came before the last flush of anything: a journal in order (ext4, XFS)."""
    ALL = "all"
    """Every one: the journal was written a moment ago, the contents were not."""


@dataclass(frozen=True, slots=True)
class Remains:
    """The files of a folder after the power failed, by path; unfinished ones are left out."""

    names: Names
    when: str
    files: Mapping[str, bytes]

    def restore(self, store: ObjectStore) -> None:
        """Put them into an empty store."""
        count_fault(FaultClass.POWER_LOSS)
        for path, body in self.files.items():
            store.put(path, body)


@dataclass(frozen=True, slots=True)
class _Entry:
    inode: int
    is_folder: bool


_Tree = dict[int, dict[str, _Entry]]
"""The entries of each folder, by the folder's inode."""


@dataclass(slots=True)
class PowerLoss:
    """Records what would be left of `root`; everything in it at the start is flushed.

    A state that several moments leave is kept once, except that of the end.
    """

    root: Path
    remains: list[Remains] = field(default_factory=list)
    flushes: int = 0
    _contents: dict[int, bytes] = field(default_factory=dict)
    _flushed: _Tree = field(default_factory=dict)
    _journaled: _Tree = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    _kept: set[tuple[Names, frozenset[tuple[str, bytes]]]] = field(default_factory=set)
    _patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    def __enter__(self) -> Self:
        for folder, _, names in os.walk(self.root):
            for name in names:
                self._remember(Path(folder) / name)
        self._journaled = self._tree()
        self._flushed = {folder: dict(entries) for folder, entries in self._journaled.items()}
        self._patch.setattr(os, "fsync", self._fsync)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patch.undo()
        self._kept.clear()
        self._keep("at the end")
        for descriptor in self._open:
            os.close(descriptor)

    def at_the_end(self) -> tuple[Remains, ...]:
        """What is left once the block has ended: everything acknowledged has to be in it."""
        return tuple(remains for remains in self.remains if remains.when == "at the end")

    def _fsync(self, descriptor: int) -> None:
        link = Path(f"/proc/self/fd/{descriptor}")
        self._keep(f"before flush {self.flushes + 1}, of {link.readlink().name}")
        self.flushes += 1
        status = os.fstat(descriptor)
        self._open.append(os.dup(descriptor))
        self._journaled = self._tree()
        if stat.S_ISDIR(status.st_mode):
            if status.st_ino in self._journaled:
                self._flushed[status.st_ino] = dict(self._journaled[status.st_ino])
        else:
            # Through the link: the descriptor itself may be open for writing only.
            self._contents[status.st_ino] = link.read_bytes()

    def _remember(self, file: Path) -> None:
        descriptor = os.open(file, os.O_RDONLY)
        self._open.append(descriptor)
        status = os.fstat(descriptor)
        self._contents[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    def _tree(self) -> _Tree:
        """The folder as it is now."""
        tree: _Tree = {}
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            entries = tree.setdefault(folder.stat().st_ino, {})
            with os.scandir(folder) as found:
                for entry in found:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    entries[entry.name] = _Entry(entry.inode(), is_folder)
                    if is_folder:
                        waiting.append(Path(entry.path))
        return tree

    def _keep(self, when: str) -> None:
        trees = {
            Names.FLUSHED: self._flushed,
            Names.JOURNALED: self._journaled,
            Names.ALL: self._tree(),
        }
        for names, tree in trees.items():
            files: dict[str, bytes] = {}
            waiting = [("", self.root.stat().st_ino)]
            while waiting:
                parent, inode = waiting.pop()
                for name, entry in tree.get(inode, {}).items():
                    path = f"{parent}/{name}" if parent else name
                    if entry.is_folder:
                        waiting.append((path, entry.inode))
                    elif not name.startswith(TEMPORARY_PREFIX):
                        files[path] = self._contents.get(entry.inode, b"")
            state = (names, frozenset(files.items()))
            if state not in self._kept:
                self._kept.add(state)
                self.remains.append(Remains(names, when, files))
