"""The most files of each kind that a table was ever seen to have, in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Most:
    """The most that was met of each."""

    data_files: int = 0
    logs_of_slice: int = 0
    instants: int = 0
    commits: int = 0
    history: int = 0
    metadata_files: list[int] = field(default_factory=list)

    def look(self, table: Path) -> None:
        paths = [path.relative_to(table) for path in files_below(table)]
        data = [path for path in paths if ".hoodie" not in path.parts]
        metadata = [path for path in paths if path.parts[:2] == (".hoodie", "metadata")]
        own = [path for path in paths if ".hoodie" in path.parts and path not in set(metadata)]
        metadata = [path for path in metadata if not {"history", "archived"} & set(path.parts)]
        history = [path for path in own if {"history", "archived"} & set(path.parts)]
        active = {path.name.partition(".")[0].partition("_")[0] for path in own
                  if path not in set(history) and path.name[:1].isdigit()}  # fmt: skip
        commits = [path for path in own if path.suffix in (".commit", ".deltacommit")]
        self.data_files = max(self.data_files, len(data))
        self.logs_of_slice = max(self.logs_of_slice, logs_behind_newest_base(data))
        self.instants = max(self.instants, len(active))
        self.commits = max(self.commits, len(commits))
        self.history = max(self.history, len(history))
        self.metadata_files.append(len(metadata))


def files_below(folder: Path) -> Iterator[Path]:
    """Those of one moment as far as a listing shows one; checksums are not counted."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names if not name.endswith(".crc"))


def logs_behind_newest_base(data: list[Path]) -> int:
    """Logs later than the newest base file, of the group that has most of them."""
    bases: dict[str, str] = {}
    for path in data:
        if path.suffix == ".parquet":
            group, _, time_of = path.stem.split("_")
            bases[group] = max(bases.get(group, ""), time_of)
    logs: Counter[str] = Counter()
    for path in data:
        if ".log." in path.name:
            group, _, rest = path.name[1:].partition("_")
            # In version 6 a log is named by the base file that it is of.
            logs[group] += rest.partition(".")[0] >= bases.get(group, "")
    return max(logs.values(), default=0)
