"""Records of many keys in columns: what an index of keys says of a commit, or of a table.

1. A run is the keys that have one record between them, but for the key: those of a file, or those
   that are gone. Where a key is in several runs of a shard the last one counts.
2. Keys belong to file groups by Java's hash of their text, which numpy computes for all of them.
3. Those of a file group are sorted by Arrow, and become an HFile column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.hfile_columns import encode_hfile_columns
from tideline.hudi.metadata_table.many_records import GroupsOf
from tideline.hudi.metadata_table.partition import KEY_BYTES_MAX, CannotFollow
from tideline.hudi.metadata_table.record import BLOCK_BYTES_MAX, record_info
from tideline.hudi.table.file_group import FileGroupId

_HASHED_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Keys with one record, as it is stored, or none where they are gone.

    `keys` are texts. A key without a text says nothing, and makes the file groups of its shard.
    """

    keys: pa.Array
    datum: bytes | None
    shard: str | None = None

    @classmethod
    def of_shard(cls, shard: str) -> KeyRun:
        """One that makes the file groups of a shard."""
        return cls(pa.array([""]), None, shard)


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """Runs, oldest first. With `are_values` the keys are those of a secondary index, where the
    value decides on the file group."""

    runs: tuple[KeyRun, ...]
    are_values: bool = False

    def __len__(self) -> int:
        return sum(len(run.keys) for run in self.runs)

    def dealt(self, groups_of: GroupsOf) -> Mapping[FileGroupId, KeysOfGroup]:
        """See `ManyRecords`."""
        return dict(self._dealt(groups_of))

    def too_long(self) -> CannotFollow | None:
        """What is in the way where a key that is there does not fit into an HFile."""
        for run in self.runs:
            if run.datum is None or not len(run.keys):
                continue
            lengths = pc.binary_length(run.keys)
            if pc.max(lengths).as_py() > KEY_BYTES_MAX:
                key = run.keys[pc.index(lengths, pc.max(lengths)).as_py()].as_py()
                return CannotFollow(f"a key of more than {KEY_BYTES_MAX:,} bytes: {key[:40]!r}...")
        return None

    def stored_twice(self) -> str | None:
        """A key that is in the runs twice; None where there is none."""
        keys = pa.chunked_array([run.keys for run in self.runs], pa.string())
        if pc.count_distinct(keys).as_py() == len(keys):
            return None
        counts = pc.value_counts(keys)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        found: str = twice[0].as_py()
        return found

    def _dealt(self, groups_of: GroupsOf) -> Iterator[tuple[FileGroupId, KeysOfGroup]]:
        by_shard: dict[str | None, list[KeyRun]] = {}
        for run in self.runs:
            if len(run.keys):
                by_shard.setdefault(run.shard, []).append(run)
        for shard, its in by_shard.items():
            keys = _joined(run.keys for run in its)
            runs = np.repeat(np.arange(len(its), dtype=np.int32), [len(run.keys) for run in its])
            data = tuple(run.datum for run in its)
            groups = groups_of(shard)
            numbers = group_numbers(_values(keys) if self.are_values else keys, len(groups))
            for number in np.unique(numbers):
                chosen = numbers == number
                of_group = keys.filter(pa.array(chosen))
                yield groups[number], KeysOfGroup.of(of_group, runs[chosen], data)


@dataclass(frozen=True, slots=True)
class KeysOfGroup:
    """The keys of a file group, ascending, each once; which of the data each has."""

    keys: pa.Array
    which: npt.NDArray[np.int32]
    data: tuple[bytes | None, ...]

    @classmethod
    def of(
        cls, keys: pa.Array, which: npt.NDArray[np.int32], data: tuple[bytes | None, ...]
    ) -> KeysOfGroup:
        """Of these, in the order of their runs, the last of each key."""
        order = pc.sort_indices(keys)
        ascending = keys.take(order)
        differs = pc.not_equal(ascending[:-1], ascending[1:]).to_numpy(zero_copy_only=False)
        is_last = np.append(differs, True)
        kept = which[order.to_numpy()][is_last]
        return cls(ascending.filter(pa.array(is_last)), kept, data)

    def __len__(self) -> int:
        return len(self.keys)

    def encoded(self) -> bytes | None:
        """See `GroupRecords`."""
        is_said = self._is_said()
        if not is_said.any():
            return None
        said = [datum or b"" for datum in self.data]
        keys = self.keys.filter(pa.array(is_said)).cast(pa.large_binary())
        return encode_hfile_columns(
            keys, self.which[is_said], said, record_info(), block_bytes_max=BLOCK_BYTES_MAX
        )

    def deleted(self) -> Sequence[str]:
        """See `GroupRecords`."""
        gone: list[str] = self.keys.filter(pa.array(~self._is_said())).to_pylist()
        return [key for key in gone if key]

    def _is_said(self) -> npt.NDArray[np.bool_]:
        return np.array([datum is not None for datum in self.data], bool)[self.which]


def group_numbers(texts: pa.Array, groups: int) -> npt.NDArray[np.int64]:
    """The numbers of the file groups that texts belong to, one text at least, as `group_number` has
    them."""
    if groups == 1:
        return np.zeros(len(texts), np.int64)
    some = [
        java_hashes(texts.slice(start, _HASHED_AT_ONCE))
        for start in range(0, len(texts), _HASHED_AT_ONCE)
    ]
    hashes = np.concatenate(some).astype(np.int32, casting="unsafe").astype(np.int64)
    found: npt.NDArray[np.int64] = np.abs(hashes) % groups
    return found


def java_hashes(texts: pa.Array) -> npt.NDArray[np.uint32]:
    """Java's hashes of texts, without nulls: units of UTF-16 as the digits of a number to the base
    31, modulo 2^32."""
    units, ends = _units(texts)
    starts, lengths = ends[:-1], np.diff(ends)
    powers = np.ones(int(lengths.max(initial=0)) + 1, np.uint32)
    np.multiply.accumulate(np.full(len(powers) - 1, 31, np.uint32), out=powers[1:])
    from_end = np.repeat(ends[1:], lengths) - np.arange(len(units)) - 1
    terms = units.astype(np.uint32) * powers[from_end]
    hashes = np.zeros(len(texts), np.uint32)
    has_units = lengths > 0
    if has_units.any():
        hashes[has_units] = np.add.reduceat(terms, starts[has_units], dtype=np.uint32)
    return hashes


def _units(texts: pa.Array) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """All units of UTF-16 of texts, and where each text begins and the last one ends."""
    texts = texts.cast(pa.large_string())
    _, places, data = texts.buffers()
    stored = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(stored[0]), int(stored[-1])
    ends = stored - first
    if data is None or first == last:
        return np.empty(0, np.uint8), ends
    raw = np.frombuffer(data, np.uint8)[first:last]
    if raw.max() < 0x80:
        return raw, ends
    counts = (raw & 0xC0 != 0x80).astype(np.int64) + (raw >= 0xF0)
    before = np.concatenate([[0], np.cumsum(counts)])
    return np.frombuffer(raw.tobytes().decode().encode("utf-16-le"), np.dtype("<u2")), before[ends]


def _values(keys: pa.Array) -> pa.Array:
    """What keys of a secondary index say of the value, as `value_part`."""
    return pc.extract_regex(keys, r"(?s)^(?P<value>(?:[^\\$]|\\.)*\$)").field("value")


def _joined(keys: Iterable[pa.Array]) -> pa.Array:
    """All keys, which may be more than the 2 GiB that an array of plain texts holds."""
    return pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in keys])
