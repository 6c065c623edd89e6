"""The page's charts as Vega-Lite specifications. Pure.

Colours are those of the page, which replaces the words of `Colour` by what its theme has for them.
Data is given in columns: `page.js` makes rows of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.report.table_facts import TableFacts
from tideline.report.table_life import Kind, Life
from tideline.report.time_axis import at_utc, time_axis
from tideline.wording import size_text

_POINTS_MAX = 1_500
_PARTITIONS_MAX = 30
_AROUND_BARS = 100
"""Pixels that a legend above and an axis below take."""
_INSTANTS_MAX = 10_000
_BYTES = " : ".join(
    [
        f"datum.value >= {size} ? format(datum.value / {size}, '.3~g') + ' {unit}'"
        for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    ]
    + ["format(datum.value, 'd')"]
)
"""A number of bytes as Vega writes it, in the units of `size_text`."""


class Colour(Enum):
    """What a colour means."""

    MAIN = "@main"
    PALE = "@pale"
    WARN = "@warn"
    SERVICE = "@service"
    CORRECTION = "@correction"
    EDGE = "@card"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its heading, a line about it, and its data by column."""

    title: str
    about: str
    data: Mapping[str, Sequence[Any]]
    spec: Mapping[str, Any]
    height: int


def charts_of(facts: TableFacts) -> tuple[Chart, ...]:
    """The charts of a page, in order; those without data are left out."""
    made = (
        *_over_time(facts.life),
        _timeline(facts.life),
        _sizes(facts),
        _partitions(facts),
        _cost(facts.life),
    )
    return tuple(chart for chart in made if chart is not None)


def _over_time(life: Life) -> tuple[Chart, ...]:
    if not life.done:
        return ()
    step = -(-len(life.done) // _POINTS_MAX)
    # The newest state always counts.
    chosen = range((len(life.done) - 1) % step, len(life.done), step)
    times = [life.done[at].at_ms for at in chosen]
    states = [life.states[at] for at in chosen]
    rows: dict[str, Any] = {"t": times, "rows": [state.rows for state in states]}
    sizes: dict[str, Any] = {
        "t": times,
        "table": [state.size_bytes for state in states],
        "stored": [state.stored_bytes for state in states],
    }
    files: dict[str, Any] = {
        "t": times * 2,
        "files": [s.base_files for s in states] + [s.log_files for s in states],
        "what": ["base files"] * len(states) + ["log files"] * len(states),
    }
    count_axis = {"format": "~s", "title": None}
    when = time_axis(times)
    return (
        Chart(
            "Size",
            "The table as it is read, and in pale what is stored with it for time travel.",
            sizes,
            {
                "layer": [
                    _area("stored", when, Colour.PALE, {"labelExpr": _BYTES, "title": None}),
                    _area("table", when, Colour.MAIN, {"labelExpr": _BYTES, "title": None}),
                ]
            },
            150,
        ),
        Chart(
            "Rows",
            "In base files and, less exactly, in logs.",
            rows,
            _area("rows", when, Colour.MAIN, count_axis),
            150,
        ),
        Chart(
            "Files",
            "Base files, and logs that wait for a compaction.",
            files,
            {
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
                "encoding": {
                    "x": when,
                    "y": {"field": "files", "type": "quantitative", "axis": count_axis},
                    "color": {
                        "field": "what",
                        "scale": _scale({"base files": Colour.MAIN, "log files": Colour.WARN}),
                        "legend": {"title": None, "orient": "top"},
                    },
                },
            },
            150,
        ),
    )


def _timeline(life: Life) -> Chart | None:
    done = life.done[-_INSTANTS_MAX:]
    if not done:
        return None
    data: dict[str, Any] = {
        "t": [candidate.at_ms for candidate in done],
        "at": [at_utc(candidate.at_ms) for candidate in done],
        "instant": [candidate.instant for candidate in done],
        "what": [candidate.what for candidate in done],
        "kind": [candidate.kind.value for candidate in done],
        "bytes": [candidate.bytes_written for candidate in done],
        "files": [candidate.files_written or candidate.files_deleted for candidate in done],
        "rows": [
            candidate.rows_inserted + candidate.rows_updated + candidate.rows_deleted
            for candidate in done
        ],
    }
    kinds = {
        Kind.WRITE.value: Colour.MAIN,
        Kind.SERVICE.value: Colour.SERVICE,
        Kind.CORRECTION.value: Colour.CORRECTION,
    }
    tooltip = [
        {"field": "at", "type": "nominal", "title": "time"},
        *({"field": name, "type": "nominal"} for name in ("instant", "what")),
        *({"field": name, "type": "quantitative", "format": ","}
          for name in ("rows", "files", "bytes")),
    ]  # fmt: skip
    whats = len(set(data["what"]))
    when = time_axis(data["t"])
    circle = {"type": "circle", "opacity": 0.85, "stroke": Colour.EDGE.value, "strokeWidth": 1}
    return Chart(
        "Timeline",
        "What was done when; a circle is as large as what was written.",
        data,
        {
            "mark": circle,
            "encoding": {
                "x": {**when, "scale": {**when["scale"], "padding": 14}},
                "y": {"field": "what", "type": "nominal", "title": None},
                "size": {
                    "field": "bytes",
                    "type": "quantitative",
                    "scale": {"range": [20, 400]},
                    "legend": None,
                },
                "color": {
                    "field": "kind",
                    "scale": _scale(kinds),
                    "legend": {"title": None, "orient": "top"},
                },
                "tooltip": tooltip,
            },
        },
        60 + 28 * whats,
    )


def _sizes(facts: TableFacts) -> Chart | None:
    if not facts.bins:
        return None
    data: dict[str, Any] = {
        "size": [_bin_text(group.from_bytes) for group in facts.bins],
        "order": [group.from_bytes for group in facts.bins],
        "files": [group.files for group in facts.bins],
        "what": ["small" if group.is_small else "large enough" for group in facts.bins],
    }
    return Chart(
        "File sizes",
        f"Base files by size. Below {size_text(facts.small_bytes_max)} a clustering joins them.",
        data,
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "x": {
                    "field": "size",
                    "type": "ordinal",
                    "sort": {"field": "order"},
                    "axis": {"title": None, "labelAngle": 0, "labelOverlap": True},
                },
                "y": {"field": "files", "type": "quantitative", "axis": {"title": None}},
                "color": {
                    "field": "what",
                    "scale": _scale({"small": Colour.WARN, "large enough": Colour.MAIN}),
                    "legend": {"title": None, "orient": "top"},
                },
                "tooltip": [
                    {"field": name, "type": "nominal"} for name in ("size", "files", "what")
                ],
            },
        },
        180,
    )


def _partitions(facts: TableFacts) -> Chart | None:
    largest = sorted(facts.partitions, key=lambda partition: -partition.size_bytes)[
        :_PARTITIONS_MAX
    ]
    if len(largest) < 2:
        return None
    data: dict[str, Any] = {
        "partition": [partition_files.path for partition_files in largest],
        "bytes": [partition_files.size_bytes for partition_files in largest],
        "small": [
            round(100 * partition_files.small_files / partition_files.base_files)
            if partition_files.base_files
            else 0
            for partition_files in largest
        ],
        "files": [partition_files.base_files for partition_files in largest],
        "logs": [partition_files.log_files for partition_files in largest],
    }
    shown = f"The {len(largest)} largest of {len(facts.partitions):,}. "
    shown = shown if len(facts.partitions) > len(largest) else ""
    return Chart(
        "Partitions",
        f"{shown}The warmer the colour, the more of the base files are small.",
        data,
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": {
                    "field": "partition",
                    "type": "nominal",
                    "sort": None,
                    "axis": {"title": None, "labelLimit": 220},
                },
                "x": {
                    "field": "bytes",
                    "type": "quantitative",
                    "axis": {"labelExpr": _BYTES, "title": None},
                },
                "color": {
                    "field": "small",
                    "type": "quantitative",
                    "scale": {
                        "domain": [0, 100],
                        "range": [Colour.MAIN.value, Colour.WARN.value],
                    },
                    "legend": {"title": "% small", "orient": "top"},
                },
                "tooltip": [{"field": name, "type": "nominal"} for name in data],
            },
        },
        _AROUND_BARS + 20 * len(largest),
    )


def _cost(life: Life) -> Chart | None:
    written: dict[str, int] = {}
    for done in life.done:
        if done.bytes_written:
            written[done.what] = written.get(done.what, 0) + done.bytes_written
    if not written:
        return None
    kinds = {candidate.what: candidate.kind.value for candidate in life.done}
    data: dict[str, Any] = {
        "what": list(written),
        "bytes": list(written.values()),
        "kind": [kinds[what] for what in written],
    }
    colours = {Kind.WRITE.value: Colour.MAIN, Kind.SERVICE.value: Colour.SERVICE}
    return Chart(
        "Bytes written",
        "By what was done, over the whole history: what services write comes on top of what "
        "arrived.",
        data,
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": {"field": "what", "type": "nominal", "sort": "-x", "axis": {"title": None}},
                "x": {
                    "field": "bytes",
                    "type": "quantitative",
                    "axis": {"labelExpr": _BYTES, "title": None},
                },
                "color": {"field": "kind", "scale": _scale(colours), "legend": None},
                "tooltip": [{"field": name, "type": "nominal"} for name in ("what", "bytes")],
            },
        },
        40 + 26 * len(written),
    )


def _area(
    field: str, when: Mapping[str, Any], colour: Colour, axis: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "mark": {
            "type": "area",
            "interpolate": "step-after",
            "color": colour.value,
            "opacity": 0.9,
        },
        "encoding": {
            "x": when,
            "y": {"field": field, "type": "quantitative", "axis": axis, "stack": None},
        },
    }


def _scale(colours: Mapping[str, Colour]) -> dict[str, Any]:
    return {"domain": list(colours), "range": [colour.value for colour in colours.values()]}


def _bin_text(from_bytes: int) -> str:
    if from_bytes == 0:
        return "< 64 kB"
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if from_bytes >= size:
            return f"{from_bytes // size} {unit}"
    return str(from_bytes)
