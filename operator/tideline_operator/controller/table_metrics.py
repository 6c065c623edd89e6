"""Metrics of tables that follow from their statuses at every scrape: what they wait for, and what
operations on them have taken.

Totals come from the statuses, so they continue where a former leader left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tideline.clock import Clock
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import Spent
from tideline_operator.resources.status import (
    ConditionStatus,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
)

_TABLE = ("namespace", "table")
_OF_KIND = (*_TABLE, "kind")

_TOTALS: tuple[tuple[str, str, Callable[[Spent], float]], ...] = (
    (
        "tideline_table_pod_seconds_total",
        "Seconds for which pods of a table's operations ran.",
        lambda spent: spent.pod_ms / 1000,
    ),
    (
        "tideline_table_gib_seconds_total",
        "Memory of these pods, in GiB, times the seconds.",
        lambda spent: spent.mib_seconds / 1024,
    ),
    (
        "tideline_table_core_seconds_total",
        "Seconds of processor cores that drivers of a table's operations took.",
        lambda spent: spent.core_ms / 1000,
    ),
    (
        "tideline_table_read_bytes_total",
        "Bytes that a table's operations read from landing files and the table.",
        lambda spent: spent.bytes_read,
    ),
    (
        "tideline_table_written_bytes_total",
        "Bytes that a table's operations wrote.",
        lambda spent: spent.bytes_written,
    ),
    (
        "tideline_table_requests_total",
        "Requests that drivers of a table's operations sent to stores.",
        lambda spent: spent.requests,
    ),
)

_AGES: tuple[tuple[str, str, Callable[[IngestStatus], Timestamp | None]], ...] = (
    (
        "tideline_table_oldest_file_age_seconds",
        "Age of the oldest file that is not committed yet, 0 while none waits.",
        lambda ingest: ingest.oldest_file_at,
    ),
    (
        "tideline_table_oldest_record_age_seconds",
        "Age of the oldest record of a topic, or change of a table of Postgres, that is not "
        "committed yet, 0 while none waits.",
        lambda ingest: ingest.oldest_record_at,
    ),
)

_Ingests = Sequence[IngestStatus]
_SLOTS: tuple[tuple[str, str, Callable[[_Ingests], float | None]], ...] = (
    (
        "tideline_table_slot_retained_bytes",
        "Write-ahead log that servers of Postgres keep for the slots of a table.",
        lambda slots: sum(slot.retained_bytes or 0 for slot in slots),
    ),
    (
        "tideline_table_slot_safe_bytes",
        "How much more log a server writes before it gives up a slot of a table; absent where it "
        "never does.",
        lambda slots: min(
            (slot.safe_bytes for slot in slots if slot.safe_bytes is not None), default=None
        ),
    ),
    (
        "tideline_table_slot_at_risk",
        "1 while a server is about to give up a slot of a table.",
        lambda slots: any(slot.slot_risk for slot in slots),
    ),
)


class TableMetrics:
    """A collector of the registry; `note` and `forget` keep it up to date."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._oldest_ms: dict[Key, tuple[int | None, ...]] = {}
        self._spent: dict[Key, dict[str, Spent]] = {}
        self._slots: dict[Key, _Ingests] = {}

    def note(self, key: Key, status: LakeTableStatus) -> None:
        """The status of a table as it is now."""
        self._spent[key] = dict(status.spent)
        # Those of a table that is paused as well: its log grows.
        slots = [item for item in status.ingest.values() if item.retained_bytes is not None]
        if slots:
            self._slots[key] = slots
        else:
            self._slots.pop(key, None)
        if any(
            condition.type is ConditionType.PAUSED and condition.status is ConditionStatus.TRUE
            for condition in status.conditions
        ):
            self._oldest_ms.pop(key, None)
            return
        self._oldest_ms[key] = tuple(
            min((at.ms for item in status.ingest.values() if (at := oldest(item))), default=None)
            for _, _, oldest in _AGES
        )

    def forget(self, key: Key) -> None:
        """The table is gone."""
        self._oldest_ms.pop(key, None)
        self._spent.pop(key, None)
        self._slots.pop(key, None)

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        for number, (name, text, _) in enumerate(_AGES):
            yield self._ages(name, text, number)
        for name, text, amount_of in _SLOTS:
            slots = GaugeMetricFamily(name, text, labels=_TABLE)
            for key, found in list(self._slots.items()):
                if (value := amount_of(found)) is not None:
                    slots.add_metric(key, value)
            yield slots
        yield self._ends()
        spent = [
            ((*key, kind), candidate)
            for key, by_kind in list(self._spent.items())
            for kind, candidate in by_kind.items()
        ]
        for name, text, amount in _TOTALS:
            family = CounterMetricFamily(name, text, labels=_OF_KIND)
            for labels, usage in spent:
                family.add_metric(labels, amount(usage))
            yield family

    def _ages(self, name: str, text: str, number: int) -> Metric:
        family = GaugeMetricFamily(name, text, labels=_TABLE)
        now_ms = self._clock.now_ms()
        for key, oldest_ms in list(self._oldest_ms.items()):
            landed_ms = oldest_ms[number]
            age_ms = 0 if landed_ms is None else max(0, now_ms - landed_ms)
            family.add_metric(key, age_ms / 1000)
        return family

    def _ends(self) -> Metric:
        family = CounterMetricFamily(
            "tideline_table_operations_total",
            "Operations on a table that ended, by kind and whether they failed.",
            labels=(*_OF_KIND, "result"),
        )
        for key, by_kind in list(self._spent.items()):
            for kind, usage in by_kind.items():
                family.add_metric((*key, kind, "failed"), usage.failures)
                family.add_metric((*key, kind, "succeeded"), usage.runs - usage.failures)
        return family
