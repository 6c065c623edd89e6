"""A look at every bucket that tables use, every few seconds, independent of the tables' turns.

1. Resolved tables name their places. Of each bucket of each LakeStore one place is kept.
2. One small read there shows whether the endpoint answers, the credentials are accepted and the
   bucket exists. Idle tables are looked at only now and then, so nothing else would notice soon.
3. When that changes, the tables of the bucket are woken: they report it in their conditions, and
   continue as soon as it is fixed.
4. A bucket that holds tables is checked once for each generation of its LakeStore
   (`tideline.storage.probe`), with a few small objects that are deleted afterwards, by a table that
   was resolved with that generation. An operator that dies in between leaves them; the next one
   checks at the same place, once it knows all tables, and removes them first. A LakeStore that is
   deleted and created again is another one: nothing that was found before is about it.
5. Both are kept in the LakeStore's status, written only when it changed. What an earlier process
   found stays until the tables that name the LakeStore have been resolved in this one: in a
   namespace that is not open none is.

One thread plans; many look, each at one bucket, and each bucket has its own time, so that endpoints
that hang do not delay the looks at others. Looks are the probes of endpoints that are left alone
(endpoints.py), one bucket of each LakeStore at a time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.errors import ConfigError, TidelineError
from tideline.ingest.location import Location
from tideline.storage.kinds import is_remote
from tideline.storage.store_kind import bucket_and_prefix
from tideline_operator.api_objects import LAKE_STORES, ApiRefusedError, Manifest
from tideline_operator.controller.controller_metrics import ControllerMetrics
from tideline_operator.controller.endpoints import probing
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.status_writer import status_content, status_manifest
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.controller.turn_failures import FAILED, write_failure
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import Problem
from tideline_operator.kube import KubeApi
from tideline_operator.observe.problems import problem_of
from tideline_operator.reading.access import Access
from tideline_operator.reading.reader import Reader
from tideline_operator.report.store_status import bucket_checked, bucket_looked_at, store_status
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.parsing import parse_object, parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import ConditionStatus
from tideline_operator.resources.store_status import BucketStatus, LakeStoreStatus

LOOK_S = 15.0
_STEP_S = 1.0
_QUICK_S = 0.5
"""How long a step waits for looks, so that what they find is taken at once where stores answer."""
_LOOKS_AT_ONCE = 64

_log = logging.getLogger(__name__)
_Bucket = tuple[Key, str]
"""A LakeStore and the name of a bucket."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A place of a table in a bucket. Of the places in one bucket those of tables come first."""

    table: ResolvedTable
    place: Location
    is_landing: bool


class StoreWatch:
    """See the module. `wake` is called with each table to be looked at."""

    def __init__(
        self,
        api: KubeApi,
        stores: ObjectCache,
        reader: Reader,
        access: Callable[[ResolvedTable], Access],
        events: EventRecorder,
        metrics: ControllerMetrics,
        clock: Clock,
        wake: Callable[[Key], None],
    ) -> None:
        self._api = api
        self._stores = stores
        self._reader = reader
        self._access = access
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._uses: dict[Key, dict[_Bucket, _Use]] = {}
        self._expected: dict[Key, frozenset[Key]] = {}
        self._unresolved: dict[Key, frozenset[Key]] = {}
        self._found: dict[_Bucket, BucketStatus] = {}
        self._about: dict[Key, str] = {}
        self._looks: dict[_Bucket, Future[BucketStatus]] = {}
        self._due_s: dict[_Bucket, float] = {}
        self._report_s = 0.0
        self._threads = ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="look")
        self._changed = threading.Event()
        self._stop = threading.Event()

    def start(self) -> None:
        """Run in new threads."""
        threading.Thread(target=self._run, name="store watch", daemon=True).start()

    def stop(self) -> None:
        """Begin no more looks."""
        self._stop.set()
        self._changed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def expect(self, key: Key, stores: Iterable[str]) -> None:
        """A table that names these LakeStores has not had a turn yet."""
        named = frozenset((key[0], name) for name in stores)
        self._expected[key] = self._unresolved[key] = named

    def had_turn(self, key: Key) -> None:
        """It has, whatever came of it."""
        self._expected.pop(key, None)

    def note(self, key: Key, table: ResolvedTable) -> None:
        """A table was resolved: these are the buckets it uses."""
        uses = _uses_of(key[0], table)
        self._unresolved.pop(key, None)
        with self._lock:
            before = self._uses.get(key)
            self._uses[key] = uses
            is_new = before is None or set(before) != set(uses)
        if is_new:
            self._changed.set()

    def forget(self, key: Key) -> None:
        """A table was deleted."""
        self._unresolved.pop(key, None)
        with self._lock:
            is_known = self._uses.pop(key, None) is not None
        if is_known:
            self._changed.set()

    def look(self) -> None:
        """Begin the looks that are due, and write what those that ended have changed."""
        uses = self._used()
        self._forget_replaced({store for store, _ in uses})
        self._begin(uses)
        wait(self._looks.values(), timeout=_QUICK_S)
        ended = {bucket: look for bucket, look in self._looks.items() if look.done()}
        for bucket, look in ended.items():
            del self._looks[bucket]
            self._take(bucket, look.result())
        self._found = {bucket: seen for bucket, seen in self._found.items() if bucket in uses}
        self._due_s = {bucket: at_s for bucket, at_s in self._due_s.items() if bucket in uses}
        now_s = self._clock.monotonic_s()
        if ended or now_s >= self._report_s:
            self._report_s = now_s + LOOK_S
            for item in self._stores.all():
                self._report(item, uses)

    def _forget_replaced(self, stores: set[Key]) -> None:
        """Forget what was found, and is being looked for, of LakeStores whose names other ones have
        now."""
        seen = {key: _uid(item) for key in stores if (item := self._stores.get(key)) is not None}
        gone = {key for key, uid in seen.items() if self._about.get(key, uid) != uid}
        self._about = {key: uid for key, uid in {**self._about, **seen}.items() if key in stores}
        for known in (self._found, self._looks, self._due_s):
            for bucket in [bucket for bucket in known if bucket[0] in gone]:
                del known[bucket]

    def _begin(self, uses: dict[_Bucket, _Use]) -> None:
        now_s = self._clock.monotonic_s()
        probed = {store for store, _ in self._looks}
        for bucket, use in uses.items():
            if bucket in self._looks or now_s < self._due_s.get(bucket, now_s):
                continue
            soon_s = _STEP_S if self._is_expecting(bucket[0]) else LOOK_S
            self._due_s[bucket] = now_s + min(soon_s, LOOK_S)
            is_probe = bucket[0] not in probed
            probed.add(bucket[0])
            self._looks[bucket] = self._threads.submit(self._look_at, bucket, use, is_probe)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._changed.clear()
            try:
                self.look()
            except BaseException:
                # Also SystemExit: what a look raises ends neither its thread nor this one.
                if not self._stop.is_set():
                    _log.exception("cannot check the stores")
            self._changed.wait(min(LOOK_S, _STEP_S))

    def _used(self) -> dict[_Bucket, _Use]:
        """One use of each bucket: that of a table's own place, if there is one, of the first table
        by name, so that a restart does not change it."""
        chosen: dict[_Bucket, _Use] = {}
        with self._lock:
            for key in sorted(self._uses):
                for bucket, use in self._uses[key].items():
                    if bucket not in chosen or chosen[bucket].is_landing:
                        chosen[bucket] = use
        return chosen

    def _is_expecting(self, store: Key) -> bool:
        """Whether tables that name the LakeStore have not had a turn yet."""
        return _is_named(store, self._expected)

    def _look_at(self, bucket: _Bucket, use: _Use, is_probe: bool) -> BucketStatus:
        key, name = bucket
        item = self._stores.get(key)
        before = self._found.get(bucket) or _stored(item).buckets.get(name) or BucketStatus()
        try:
            access = self._access(use.table)
            with probing() if is_probe else contextlib.nullcontext():
                self._reader.probe(access, use.table, use.place)
            generation = _generation(item)
            is_checked = before.checked_generation == generation or use.is_landing
            if not (is_checked or self._is_expecting(key)) and _is_of(item, use.table):
                self._api.check_may_write()
                report = self._reader.check_store(access, use.table, use.place)
                return bucket_checked(report, generation, self._clock.now_ms())
        except SecretProblemError as error:
            problem = Problem(error.reason, error.message, error.exit_code, is_transient=False)
            return bucket_looked_at(before, problem)
        except TidelineError as error:
            return bucket_looked_at(before, problem_of(error))
        return bucket_looked_at(before, None)

    def _take(self, bucket: _Bucket, now: BucketStatus) -> None:
        """Keep what was found, and wake the tables of a bucket that failed or recovered."""
        before = self._found.get(bucket)
        self._found[bucket] = now
        if (before.problem if before is not None else "") == now.problem:
            return
        with self._lock:
            tables = [key for key, uses in self._uses.items() if bucket in uses]
        for key in tables:
            self._wake(key)

    def _report(self, item: Manifest, uses: Iterable[_Bucket]) -> None:
        """Write the status of one LakeStore, if it changed and the first look has ended."""
        key = item["metadata"]["namespace"], item["metadata"]["name"]
        before = _stored(item)
        buckets: dict[str, BucketStatus] = {}
        for store, name in uses:
            if store == key:
                seen = self._found.get((store, name)) or before.buckets.get(name)
                if seen is None:
                    return
                buckets[name] = seen
        if self._is_expecting(key) and not buckets:
            return
        if _is_named(key, self._unresolved):
            buckets = {**before.buckets, **buckets}
        status = store_status(before, buckets, _generation(item), self._clock.now_ms())
        if status == before:
            self._metrics.note_store(key, status)
            return
        manifest = status_manifest(LAKE_STORES, item, status_content(status))
        try:
            written = self._api.apply(LAKE_STORES, manifest, key[0], subresource="status")
        except ApiRefusedError as error:
            _log.info("cannot write the status of LakeStore %s/%s: %s", *key, error)
            # Else it was deleted or changed meanwhile, or another one of its name exists.
            if error.status not in (404, 409):
                self._note_refused(item, error)
            return
        self._stores.put_written(written)
        self._record(item, status)
        self._metrics.note_store(key, status)

    def _note_refused(self, item: Manifest, error: ApiRefusedError) -> None:
        note = f"cannot write the status of this store: {error}"
        event = TableEvent(FAILED, f"{FAILED}@{_generation(item)}", note, is_warning=True)
        self._events.record(item, event)
        self._metrics.store_ready.labels(*key_of(item)).set(0)
        write_failure(self._api, LAKE_STORES, self._stores, item, note, self._clock.now_ms())

    def _record(self, item: Manifest, status: LakeStoreStatus) -> None:
        (ready,) = status.conditions
        if ready.status is ConditionStatus.FALSE:
            subject = f"{ready.message}@{ready.last_transition_time.ms}"
            event = TableEvent(ready.reason, subject, ready.message, is_warning=True)
            self._events.record(item, event)


def _is_named(store: Key, by_table: Mapping[Key, frozenset[Key]]) -> bool:
    return any(store in stores for stores in list(by_table.values()))


def _uses_of(namespace: str, table: ResolvedTable) -> dict[_Bucket, _Use]:
    """The buckets of a table's places that are reached through LakeStores."""
    spec = table.resource.spec
    uses: dict[_Bucket, _Use] = {}
    for ingest in spec.ingest:
        name = ingest.source.store_ref or spec.store_ref
        for place in table.sources[ingest.name].places:
            if name is not None and is_remote(place.uri):
                uses[(namespace, name), _bucket(place)] = _Use(table, place, is_landing=True)
    if spec.store_ref is not None and is_remote(table.location.uri):
        bucket = (namespace, spec.store_ref), _bucket(table.location)
        uses[bucket] = _Use(table, table.location, is_landing=False)
    return uses


def _is_of(item: Manifest | None, table: ResolvedTable) -> bool:
    """Whether a table was resolved with a LakeStore as it is now."""
    try:
        spec = None if item is None else parse_object(LakeStore, item).spec
    except ConfigError:
        return False
    return spec is not None and spec in table.stores.values()


def _uid(item: Manifest) -> str:
    return str(item["metadata"].get("uid"))


def _bucket(place: Location) -> str:
    return bucket_and_prefix(place.uri)[0]


def _stored(item: Manifest | None) -> LakeStoreStatus:
    status = (item or {}).get("status") or {}
    return parse_stored(LakeStoreStatus, status) or LakeStoreStatus()


def _generation(item: Manifest | None) -> int:
    return 0 if item is None else int(item["metadata"].get("generation") or 0)
