"""One run of a service in this process: its context, its threads, and when they give up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import TypeVar

from tideline.errors import ConflictError
from tideline.hudi.file_group.slice_rewrite import RewriteContext
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write.bounded_threads import in_bounded_threads
from tideline.storage.object_store import ObjectStore

Item = TypeVar("Item")
Done = TypeVar("Done")


class ServiceThreads:
    """The threads of one run, which end when its time is over or when one of them failed."""

    def __init__(
        self, table: HoodieTable, work: ServiceWork, threads: int, held_bytes_max: int
    ) -> None:
        self.context = RewriteContext.of(
            table, work.timeline, work.instant, work.schema_json, work.config.files
        )
        self._table = table
        self._work = work
        self._threads = threads
        self._held_bytes_max = held_bytes_max
        self._started_s = table.clock.monotonic_s()
        self._is_stopped = Event()

    @property
    def store(self) -> ObjectStore:
        return self._table.store

    def run(
        self,
        items: Sequence[Item],
        do: Callable[[RewriteContext, Item], Done],
        held_bytes: Callable[[Item], int],
    ) -> list[Done]:
        """What `do` gives for each item, with the context of a task of its own. Raises what it
        does, and ConflictError when the time is over."""

        def do_numbered(number: int) -> Done:
            return do(self.context.for_task(number, 0, 0), items[number])

        return in_bounded_threads(
            range(len(items)),
            do_numbered,
            threads=self._threads,
            held_bytes=lambda number: held_bytes(items[number]),
            held_bytes_max=self._held_bytes_max,
            stop=self._is_stopped.set,
        )

    def give_up(self) -> None:
        """Raise ConflictError when the time is over, or the run has failed elsewhere."""
        if self._is_stopped.is_set():
            raise ConflictError("another part of the run failed", instant=self._work.instant)
        seconds_max = self._work.seconds_max
        if seconds_max is None:
            return
        if self._table.clock.monotonic_s() - self._started_s > seconds_max:
            raise self._work.took_too_long()
