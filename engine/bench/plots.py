"""Plots of what benches measured: how many times as fast as a peer, and how work grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

COLOURS = {"hudi": "#0e7490", "iceberg": "#7c3aed"}
TARGET = "#d97706"
GROWING = {"core-seconds": "#0e7490", "memory": "#7c3aed", "requests": "#059669"}
_SETTINGS: Any = {
    "svg.hashsalt": "tideline",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_METADATA = {"Date": None}


def draw_speed(records: Mapping[str, Any], path: Path) -> None:
    """Bars: by how many times Tideline is faster than each peer, and the targets."""
    claims = [
        (peer, claim)
        for peer, record in records.items()
        for claim in record.get("claims", ())
        if claim["wanted"].startswith(">=")
    ]
    claims.reverse()
    with plt.rc_context(_SETTINGS):
        figure, axes = plt.subplots(figsize=(8, 0.7 + 0.28 * len(claims)), layout="constrained")
        ratios = [claim["ratio"] for _, claim in claims]
        names = [claim["name"] for _, claim in claims]
        axes.barh(names, ratios, color=[COLOURS[peer] for peer, _ in claims], height=0.6)
        wanted = [float(claim["wanted"].strip("<>=x ")) for _, claim in claims]
        axes.plot(wanted, names, "|", color=TARGET, markersize=11, mew=2.5, label="target")
        for row, ratio in enumerate(ratios):
            axes.annotate(f"{ratio:.1f}x", (ratio, row), (4, 0), va="center", **_POINTS)
        axes.set_xlabel("times as fast as the peer on the same machine")
        axes.margins(x=0.1, y=0.01)
        axes.legend(loc="lower right", frameon=False)
        figure.savefig(path, metadata=_METADATA)
        plt.close(figure)


def draw_growth(axes_measured: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """For each axis how many times work, memory and requests grew; in grey, as the input did."""
    with plt.rc_context(_SETTINGS):
        rows = -(-len(axes_measured) // 3)
        figure, grid = plt.subplots(
            rows, 3, figsize=(8.5, 2.7 * rows), layout="constrained", squeeze=False
        )
        for axes, (axis, measured) in zip(grid.flat, axes_measured.items(), strict=False):
            _draw_axis(axes, axis, measured)
        for axes in grid.flat[len(axes_measured) :]:
            axes.set_visible(False)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, metadata=_METADATA)
        plt.close(figure)


def _draw_axis(axes: Axes, axis: str, measured: Sequence[Mapping[str, Any]]) -> None:
    sizes = [row["size"] for row in measured]
    series = {
        "core-seconds": [median(row["coreSeconds"]) for row in measured],
        "memory": [row["peakBytes"] for row in measured],
        "requests": [sum(row["requests"].values()) for row in measured],
    }
    inputs = [row["input"] / measured[0]["input"] for row in measured]
    axes.loglog(sizes, inputs, "--", color="#9ca3af", label="input")
    for name, values in series.items():
        times = [value / values[0] for value in values]
        axes.loglog(sizes, times, "o-", color=GROWING[name], label=name, markersize=3.5)
    axes.set_title(axis, loc="left", fontweight="bold")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.set_ylabel("times the smallest" if axis in ("groups", "columns") else "")


_POINTS: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}
