"""Whether keys of a batch are looked up in the record index or in the files of the table, by cost.

The files that keys are in are read either way: the index gains the others. So it is used where
looking into it takes no longer than reading the files that the keys are not in. How many these are
is not known before keys were looked up, unless it makes no difference: then some of the keys are
looked up first.

Costs are estimates, in seconds. They count requests to an object store, bytes, and what is done for
each key; both ways do several things at once, so that this cancels out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.table.file_group import FileSlice

KEYS_SAMPLED = 1_000
"""Of more keys so many are looked up first; so few are looked up in the index without a plan."""
KEYS_MAX = 1_000_000
"""More keys are not gathered in one process to be looked up."""

_REQUEST_S = 0.005
_REQUESTS_OF_FILE = 2
"""Of a base file: the footer, and the column of keys."""
_FILE_BYTES_PER_S = 100_000_000
_INDEX_BYTES_PER_S = 20_000_000
"""Of compressed blocks of records, in which keys are looked for."""
_KEY_S = 15e-6
_BLOCK_BYTES = 16 * 1024
"""What a block of an index takes, compressed."""
_REQUEST_BYTES_MAX = 4 * 1024 * 1024


class LookupPlan(Enum):
    """Where keys are looked up; or that some have to be looked up first to tell."""

    INDEX = "index"
    FILES = "files"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class SampledKeys:
    """So many keys were looked up; `groups` file groups have them, `groups_met_once` one each."""

    keys: int
    groups: int
    groups_met_once: int

    @classmethod
    def of(cls, keys: int, places: Iterable[Any]) -> SampledKeys:
        """The file group of each key that was found."""
        met = Counter(places)
        return cls(keys, len(met), sum(1 for times in met.values() if times == 1))

    def groups_of(self, keys: int) -> float:
        """How many file groups have some of so many keys, at most.

        Each further key is in a file group that was not met yet as often as the keys of the sample
        met one that no other did, or less often: the more are met, the fewer are left.
        """
        return self.groups + (keys - self.keys) * self.groups_met_once / self.keys


def plan_lookup(
    keys: int,
    index: Sequence[FileSlice],
    candidates: Sequence[LookupCandidate],
    sample: SampledKeys | None = None,
) -> LookupPlan:
    """Where to look so many keys up: these file groups of the index may have them, or these files.

    Never SAMPLE with a sample.
    """
    index_s = index_seconds(keys, index)
    files_s = sum(map(_file_seconds, candidates))

    def gains(touched: float) -> bool:
        left_out = 1 - min(1.0, touched / len(candidates)) if candidates else 0.0
        return index_s <= files_s * left_out

    if gains(keys if sample is None else sample.groups_of(keys)):
        return LookupPlan.INDEX
    return LookupPlan.SAMPLE if sample is None and gains(0) else LookupPlan.FILES


def index_seconds(keys: int, index: Sequence[FileSlice]) -> float:
    """What looking so many keys up in these file groups of an index takes; keys are spread evenly
    over them."""
    each = -(-keys // max(1, len(index)))
    touched = min(keys, len(index))
    share = touched / max(1, len(index))
    return keys * _KEY_S + share * sum(_group_seconds(each, file_slice) for file_slice in index)


def listing_seconds(files: Sequence[FileSlice]) -> float:
    """What reading all of a partition of the metadata table takes that lists files."""
    sizes = [file.size_bytes for file_slice in files for file in file_slice.row_files]
    return len(sizes) * _REQUEST_S + sum(sizes) / _INDEX_BYTES_PER_S


def _group_seconds(keys: int, file_slice: FileSlice) -> float:
    """A base file is looked into by blocks, logs are read whole."""
    base = file_slice.base_file
    size_bytes = 0 if base is None else base.size_bytes
    read_bytes = min(size_bytes, keys * _BLOCK_BYTES)
    requests = min(keys, 1 + size_bytes // _REQUEST_BYTES_MAX) if base else 0
    read_bytes += sum(log.size_bytes for log in file_slice.log_files)
    requests += len(file_slice.log_files)
    return requests * _REQUEST_S + read_bytes / _INDEX_BYTES_PER_S


def _file_seconds(candidate: LookupCandidate) -> float:
    files = len(candidate.whole.row_files)
    return files * _REQUESTS_OF_FILE * _REQUEST_S + candidate.bytes_read / _FILE_BYTES_PER_S
