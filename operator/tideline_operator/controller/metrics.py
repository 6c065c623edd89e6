"""Counters, gauges and histograms, and their text in Prometheus' format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

DURATION_BOUNDS_S = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)
TURN_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Buckets:
    """One histogram: how many values fell up to each bound, their number and sum."""

    counts: list[int]
    total: int = 0
    sum: float = 0.0


class Metrics:
    """All metrics of one process, by name and labels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helps: dict[str, tuple[str, str]] = {}
        self._values: dict[str, dict[Labels, float]] = {}
        self._durations: dict[str, tuple[tuple[float, ...], dict[Labels, _Buckets]]] = {}
        self._collectors: list[Callable[[], None]] = []

    def describe(self, name: str, kind: str, text: str) -> None:
        """Say what a metric means; `kind` is counter, gauge or histogram."""
        self._helps[name] = (kind, text)

    def on_collect(self, collector: Callable[[], None]) -> None:
        """Call `collector` before the metrics are read, to bring gauges up to date."""
        self._collectors.append(collector)

    def add(self, name: str, value: float = 1.0, /, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            series = self._values.setdefault(name, {})
            key = _key(labels)
            series[key] = series.get(key, 0.0) + value

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._values.setdefault(name, {})[_key(labels)] = value

    def unset(self, name: str, /, **labels: str) -> None:
        """Drop a gauge of which nothing is known."""
        with self._lock:
            self._values.get(name, {}).pop(_key(labels), None)

    def observe(
        self, name: str, value: float, /, bounds: tuple[float, ...] = (), **labels: str
    ) -> None:
        """Add a value to a histogram."""
        with self._lock:
            limits, series = self._durations.setdefault(name, (bounds or DURATION_BOUNDS_S, {}))
            buckets = series.setdefault(_key(labels), _Buckets([0] * len(limits)))
            place = bisect_left(limits, value)
            if place < len(limits):
                buckets.counts[place] += 1
            buckets.total += 1
            buckets.sum += value

    def forget(self, **labels: str) -> None:
        """Drop every gauge and counter that carries these labels, as when a table was deleted."""
        wanted = set(labels.items())
        with self._lock:
            for series in self._values.values():
                for key in [key for key in series if wanted <= set(key)]:
                    del series[key]

    def value(self, name: str, /, **labels: str) -> float:
        """The present value of a counter or gauge; 0 when it was never set."""
        with self._lock:
            return self._values.get(name, {}).get(_key(labels), 0.0)

    def text(self) -> str:
        """Everything, in Prometheus' text format."""
        for collector in self._collectors:
            collector()
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name in sorted({*self._helps, *self._values, *self._durations}):
            kind, help_text = self._helps.get(name, ("untyped", ""))
            if help_text:
                yield f"# HELP {name} {help_text}"
                yield f"# TYPE {name} {kind}"
            for labels, value in sorted(self._values.get(name, {}).items()):
                yield f"{name}{_label_text(labels)} {_number(value)}"
            if name in self._durations:
                limits, series = self._durations[name]
                for labels, buckets in sorted(series.items(), key=lambda item: item[0]):
                    yield from _histogram(name, labels, limits, buckets)


def _histogram(
    name: str, labels: Labels, limits: tuple[float, ...], buckets: _Buckets
) -> Iterator[str]:
    so_far = 0
    for limit, count in zip(limits, buckets.counts, strict=True):
        so_far += count
        yield f"{name}_bucket{_label_text((*labels, ('le', _number(limit))))} {so_far}"
    yield f"{name}_bucket{_label_text((*labels, ('le', '+Inf')))} {buckets.total}"
    yield f"{name}_sum{_label_text(labels)} {_number(buckets.sum)}"
    yield f"{name}_count{_label_text(labels)} {buckets.total}"


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _label_text(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (
        (name, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, text in labels
    )
    return "{" + ",".join(f'{name}="{text}"' for name, text in quoted) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
