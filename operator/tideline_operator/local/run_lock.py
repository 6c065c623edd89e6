"""At most one `tideline run` for a table in a state folder: a second one would do the same work.

The lock belongs to an open file that the worker process inherits. So it lasts until both have
ended: when this process is killed, the next one waits for the worker to notice.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

from tideline.errors import ConflictError
from tideline_operator.resources.resolved import ResolvedTable

WAIT_S = 5.0
_PAUSE_S = 0.1


class RunLock:
    """The locks of all tables, released at the end of a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        while self._held:
            self._held.popitem()[1].close()

    @property
    def files(self) -> tuple[int, ...]:
        """Descriptors for a worker process to inherit."""
        return tuple(file.fileno() for file in self._held.values())

    def hold(self, tables: Iterable[ResolvedTable]) -> None:
        """Take the locks not held yet. Raises ConflictError when another run has one."""
        for table in tables:
            if table.name not in self._held:
                self._held[table.name] = self._take(table)

    def _take(self, table: ResolvedTable) -> IO[bytes]:
        metadata = table.resource.metadata
        path = self._folder / f"{metadata.namespace}.{metadata.name}.lock"
        file = path.open("ab")
        deadline_s = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError as error:
                if time.monotonic() > deadline_s:
                    file.close()
                    raise ConflictError(
                        f"another `tideline run` has LakeTable {table.name}: stop it first",
                        path=path,
                    ) from error
                time.sleep(_PAUSE_S)
