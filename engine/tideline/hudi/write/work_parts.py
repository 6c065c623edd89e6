"""The parts that the work on a batch in memory is cut into, and what does them.

A part has all that its work needs, so that it can be sent to another process: lookups of keys in
some stored files, or the rows of one bucket and where they go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.stored_key_lookup import StoredKeyLookup
from tideline.hudi.file_group.wanted_keys import WantedKeys
from tideline.hudi.keys.partition_path import check_new_partition
from tideline.hudi.placement.targets import Target
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.bounded_threads import in_bounded_threads
from tideline.hudi.write.bucket_write import write_bucket
from tideline.machine import processors
from tideline.storage.object_store import ObjectStore

Done = TypeVar("Done", covariant=True)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """The task that does a part: its numbers are in the names of the files that it writes."""

    partition: int
    stage: int = 0
    attempt: int = 0


class WorkPart(Protocol[Done]):
    """Some work of its own; it may be done again where it failed."""

    def run(self, store: ObjectStore, task: TaskNumbers) -> Sequence[Done]:
        """Do it. `store` is the table's."""


class PartRunner(Protocol):
    """Does the parts of one write."""

    @property
    def parallelism(self) -> int:
        """How many parts it does at once."""

    def run(
        self, make: Callable[[int], WorkPart[Answer]], sizes_bytes: Sequence[int]
    ) -> list[Answer]:
        """What the parts give that `make` makes of the numbers of `sizes_bytes`, in order.

        A size is about how much the part reads and is given. Raises what one of them raised, once
        those that had begun are over.
        """


@dataclass(frozen=True, slots=True)
class LookUpKeys:
    """Looks keys up in the lookup's candidates of these numbers."""

    lookup: StoredKeyLookup
    numbers: tuple[int, ...]
    wanted: WantedKeys

    def run(self, store: ObjectStore, task: TaskNumbers) -> Sequence[pa.RecordBatch]:  # noqa: ARG002
        """The answers, in the lookup's schema."""
        return [
            found
            for number in self.numbers
            for found in self.lookup.look_up(store, number, self.wanted)
        ]


@dataclass(frozen=True, slots=True)
class WriteBucket:
    """Writes the rows of one bucket to its target."""

    context: HandleContext
    target: Target
    rows: pa.RecordBatch
    drops_duplicates: bool

    def run(self, store: ObjectStore, task: TaskNumbers) -> Sequence[WriteStat]:
        """One stat for each file."""
        context = self.context.for_task(task.partition, task.stage, task.attempt)
        rows, drops = (self.rows,), self.drops_duplicates
        return write_bucket(context, store, self.target, rows, drops_duplicates=drops)


@dataclass(frozen=True, slots=True)
class CreateFiles:
    """Writes rows of one partition to new file groups."""

    context: HandleContext
    partition: str
    file_id_prefix: str
    rows: pa.RecordBatch

    def run(self, store: ObjectStore, task: TaskNumbers) -> Sequence[WriteStat]:
        """One stat for each file. Raises InvalidDataError where partitions would nest."""
        check_new_partition(store, self.partition)
        context = self.context.for_task(task.partition, task.stage, task.attempt)
        rows = (self.rows,)
        return create_base_files(context, store, self.partition, self.file_id_prefix, rows)


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """Does parts in this process, several at once; each is made when its turn comes."""

    store: ObjectStore
    threads: int

    @classmethod
    def of(cls, store: ObjectStore) -> ThreadRunner:
        """One thread for each processor."""
        return cls(store, processors())

    @property
    def parallelism(self) -> int:
        """Threads."""
        return self.threads

    def run(
        self, make: Callable[[int], WorkPart[Answer]], sizes_bytes: Sequence[int]
    ) -> list[Answer]:
        """See `PartRunner.run`."""

        def run_part(number: int) -> Sequence[Answer]:
            return make(number).run(self.store, TaskNumbers(number))

        found = in_bounded_threads(
            range(len(sizes_bytes)),
            run_part,
            threads=self.threads,
            held_bytes=lambda _: 0,
            held_bytes_max=0,
            stop=lambda: None,
        )
        return [answer for answers in found for answer in answers]
