"""Show the history of a table from its timeline: what was done to it and to its files.

Everything is read from commits and cleans, archived ones included; no data file is opened and none
is listed. Prints a line for every service that ran and draws a picture:

    python examples/flights/life.py out/flights/table out/flights/life.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from rich.console import Console
from rich.table import Table

from tideline.formats.avro import decode_container
from tideline.hudi.table.file_group import FileGroupId, join_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.storage.location import StoreLocation

SMALL_FILE_LIMIT = "hoodie.clustering.plan.strategy.small.file.limit"
SERVICES = {"COMPACT": "compaction", "LOG_COMPACT": "log compaction", "CLUSTER": "clustering"}
COLOURS = {"compaction": "#d97706", "clustering": "#7c3aed", "cleaning": "#059669"}
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """The table after one instant. Sizes are bytes; `stored` counts old versions as well."""

    instant: Instant
    what: str
    base_files: int
    log_files: int
    size_bytes: int
    small_files: int
    stored_files: int
    stored_bytes: int

    @property
    def small_percent(self) -> float:
        return 100 * self.small_files / self.base_files if self.base_files else 0.0


@dataclass(slots=True)
class Files:
    """The files of a table while its timeline is played back."""

    small_bytes: int
    stored: dict[str, int] = field(default_factory=dict)
    base: dict[FileGroupId, int] = field(default_factory=dict)
    logs: dict[FileGroupId, dict[str, int]] = field(default_factory=dict)

    def commit(self, metadata: CommitMetadata) -> None:
        """A base file is a new version of its group and includes its log files."""
        for stat in metadata.write_stats:
            path, file_id = stat.path or "", stat.file_id or ""
            group = FileGroupId(stat.partition_path or "", file_id)
            self.stored[path] = stat.file_size_in_bytes
            if stat.log_version is not None:
                self.logs.setdefault(group, {})[path] = stat.file_size_in_bytes
            else:
                self.base[group] = stat.file_size_in_bytes
                self.logs.pop(group, None)
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
            for file_id in ids:
                self.base.pop(FileGroupId(partition, file_id), None)
                self.logs.pop(FileGroupId(partition, file_id), None)

    def clean(self, record: Mapping[str, Any]) -> None:
        for partition, cleaned in (record.get("partitionMetadata") or {}).items():
            for name in cleaned["successDeleteFiles"]:
                self.stored.pop(join_path(partition, name), None)

    def moment(self, instant: Instant, what: str) -> Moment:
        logs = [size for sizes in self.logs.values() for size in sizes.values()]
        return Moment(
            instant,
            what,
            base_files=len(self.base),
            log_files=len(logs),
            size_bytes=sum(self.base.values()) + sum(logs),
            small_files=sum(1 for size in self.base.values() if size < self.small_bytes),
            stored_files=len(self.stored),
            stored_bytes=sum(self.stored.values()),
        )


def read_life(table: HoodieTable) -> tuple[Moment, ...]:
    """Play the timeline back, the archived part first."""
    small = int(table.config.properties.get(SMALL_FILE_LIMIT, "314572800"))
    files, moments = Files(small), []
    for instant, said in _instants(table):
        if isinstance(said, CommitMetadata):
            files.commit(said)
            what = SERVICES.get(said.operation_type or "", "ingest")
        else:
            files.clean(said)
            what = "cleaning"
        moments.append(files.moment(instant, what))
    return tuple(moments)


def print_life(moments: tuple[Moment, ...], table: HoodieTable) -> None:
    """A line for every service that ran, and one for the ingests between two of them."""
    report = Table(title="The life of the table")
    for heading in ("instant", "what", "base files", "log files", "small", "size", "stored"):
        report.add_column(heading, justify="left" if heading in ("instant", "what") else "right")
    ingests = 0
    for position, moment in enumerate(moments):
        ingests += moment.what == "ingest"
        is_last = position + 1 == len(moments) or moments[position + 1].what != "ingest"
        if moment.what == "ingest" and not is_last:
            continue
        what = moment.what if moment.what != "ingest" else f"{ingests} ingest{'s' * (ingests > 1)}"
        ingests = 0
        report.add_row(
            str(moment.instant.time),
            what,
            f"{moment.base_files}",
            f"{moment.log_files}",
            f"{moment.small_percent:.0f} %",
            f"{moment.size_bytes / MEGABYTE:.1f} MB",
            f"{moment.stored_bytes / MEGABYTE:.1f} MB",
        )
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print()
    console.print(report)
    active = len(table.timeline().completed())
    archived = len({entry.instant.time for entry in table.archived().completed()})
    counted = ", ".join(
        f"{sum(1 for moment in moments if moment.what == name)} {name}"
        for name in dict.fromkeys(moment.what for moment in moments)
    )
    console.print(f"{counted}; {active} instants are in the timeline, {archived} in its archive.")


def draw_life(moments: tuple[Moment, ...], path: Path) -> None:
    """Three panels over the instants, with a line for each service run."""
    steps = range(1, len(moments) + 2)
    shown = (*moments, moments[-1])
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "tideline", "axes.grid": True})
    plt.rcParams.update({"grid.alpha": 0.25, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(3, 1, figsize=(9, 7.5), sharex=True, layout="constrained")
    sizes, counts, ratio = panels
    sizes.fill_between(
        steps,
        [moment.stored_bytes / MEGABYTE for moment in shown],
        step="post",
        color="#cbd5e1",
        label="stored, with old versions",
    )
    sizes.fill_between(
        steps,
        [moment.size_bytes / MEGABYTE for moment in shown],
        step="post",
        color="#2563eb",
        label="the table as it is",
    )
    sizes.set_ylabel("MB")
    counts.step(steps, [m.base_files for m in shown], where="post", color="#2563eb",
                label="base files")  # fmt: skip
    counts.step(steps, [m.log_files for m in shown], where="post", color="#dc2626",
                label="log files that wait for compaction")  # fmt: skip
    counts.set_ylabel("files")
    ratio.step(steps, [m.small_percent for m in shown], where="post", color="#2563eb",
               label="base files small enough to be clustered")  # fmt: skip
    ratio.set_ylabel("%")
    ratio.set_ylim(0, 100)
    ratio.set_yticks(range(0, 101, 25))
    ratio.set_xlabel("instant")
    for panel in panels:
        panel.set_xlim(1, len(moments) + 1)
        # Room for the legend above the curves.
        panel.set_ylim(0, max(1.0, panel.get_ylim()[1]) * 1.3)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _mark_services(panel, moments)
    handles, labels = sizes.get_legend_handles_labels()
    for panel in (counts, ratio):
        panel.legend(loc="upper left", frameon=False)
    marks = [Line2D([], [], color=colour, linewidth=1) for colour in COLOURS.values()]
    sizes.legend(handles + marks, [*labels, *COLOURS], loc="upper left", frameon=False, ncols=2)
    figure.suptitle("A year of flights: what ingests and services made of the table")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Show the history of a table.")
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path, help="SVG or PNG to draw")
    arguments = parser.parse_args()
    table = HoodieTable.open(StoreLocation.of(str(arguments.table)))
    moments = read_life(table)
    if not moments:
        sys.exit(f"Nothing has happened to {arguments.table} yet.")
    print_life(moments, table)
    draw_life(moments, arguments.picture)
    print(f"The picture is in {arguments.picture}.")


def _mark_services(panel: Axes, moments: tuple[Moment, ...]) -> None:
    for step, moment in enumerate(moments, start=1):
        if moment.what in COLOURS:
            panel.axvline(step, color=COLOURS[moment.what], linewidth=0.8, alpha=0.6)


def _instants(table: HoodieTable) -> Iterator[tuple[Instant, CommitMetadata | Mapping[str, Any]]]:
    """Every commit and clean of the table with its metadata, oldest first."""
    said: dict[Instant, CommitMetadata | Mapping[str, Any]] = {}
    for entry in table.archived().completed():
        if entry.instant.action in COMMIT_ACTIONS:
            said[entry.instant] = entry.commit_metadata()
        elif entry.instant.action is Action.CLEAN:
            said[entry.instant] = entry.record.get("hoodieCleanMetadata") or {}
    for instant in table.timeline().completed():
        if instant.action in COMMIT_ACTIONS:
            said[instant] = table.timelines.read_commit(instant)
        elif instant.action is Action.CLEAN and (body := table.timelines.read(instant)):
            said[instant] = decode_container(body, path=table.timelines.path(instant))
    yield from sorted(said.items(), key=lambda item: item[0])


if __name__ == "__main__":
    main()
