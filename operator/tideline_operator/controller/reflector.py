"""A reflector keeps a cache of one kind of object current.

1. List everything, and report what changed since the last list.
2. Watch from the list's resource version; bookmarks keep it recent while nothing happens.
3. The server ends a watch after a while; the next one continues from there.
4. A version that is too old (410) means: list again. Any other failure means: retry later, and
   after longer each time until a watch has lasted: lists are what costs the server most.

The callback only puts keys into a queue; it does no work here.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline_operator.api_objects import (
    ApiRefusedError,
    ApiResource,
    ExpiredError,
    Manifest,
    WatchKind,
)
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.kube import KubeApi

WATCH_S = 60.0
FAILURE_FIRST_S = 0.5
SHORT_S = 1.0
"""A watch that the server ends sooner is followed by a pause."""
FAILURE_LAST_S = 30.0
STUCK_S = 3 * WATCH_S + 60.0
"""A loop without an iteration for this long counts as stuck."""

OnChange = Callable[[Manifest | None, Manifest | None], None]
"""Called with an object before and after; None when it did not exist or was deleted."""

_log = logging.getLogger(__name__)


class Reflector:
    """See the module. `namespace` None watches all. A kind that `may_be_missing` has no objects
    while the cluster has no such kind."""

    def __init__(
        self,
        api: KubeApi,
        resource: ApiResource,
        cache: ObjectCache,
        on_change: OnChange,
        clock: Clock,
        *,
        namespace: str | None = None,
        labels: str = "",
        may_be_missing: bool = False,
        on_list: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._cache = cache
        self._on_change = on_change
        self._clock = clock
        self._namespace = namespace
        self._labels = labels
        self._may_be_missing = may_be_missing
        self._on_list = on_list
        self._failure = ""
        self._stop = threading.Event()
        self._beat_s = clock.monotonic_s()
        self._heard_s = self._beat_s
        self.synced = threading.Event()

    def __str__(self) -> str:
        return f"{self._resource}" + (f" in {self._namespace}" if self._namespace else "")

    def start(self) -> None:
        """Run in a new thread."""
        threading.Thread(target=self.run, name=f"reflector {self}", daemon=True).start()

    def stop(self) -> None:
        """End after the event under way."""
        self._stop.set()

    @property
    def is_stuck(self) -> bool:
        """Whether its loop makes no progress. An unreachable server is not the same."""
        return self._clock.monotonic_s() - self._beat_s > STUCK_S

    @property
    def why_not(self) -> str:
        """Why it has no list yet, as the end of a sentence."""
        return f": {self._failure}" if self._failure else ""

    @property
    def silent_s(self) -> float:
        """Seconds since the server last answered."""
        return self._clock.monotonic_s() - self._heard_s

    def run(self) -> None:
        """List and watch until stopped."""
        failures = 0
        while not self._stop.is_set():
            try:
                version = self._list()
                while not self._stop.is_set():
                    began_s = self._clock.monotonic_s()
                    version = self._watch(version)
                    failures = 0
                    if self._clock.monotonic_s() - began_s < SHORT_S:
                        self._stop.wait(SHORT_S)
            except ExpiredError:
                failures += 1
                _log.info("listing %s again: its resource version expired", self)
            except TidelineError as error:
                failures += 1
                self._failure = str(error)
                is_missing = isinstance(error, ApiRefusedError) and error.is_missing
                if is_missing and self._may_be_missing:
                    self._note()
                    self.synced.set()
                _log.warning("cannot watch %s: %s", self, error)
            except Exception:
                failures += 1
                _log.exception("cannot watch %s", self)
            self._beat_s = self._clock.monotonic_s()
            delay_s = min(FAILURE_LAST_S, FAILURE_FIRST_S * 2 ** min(failures, 10))
            self._stop.wait(delay_s * random.uniform(0.8, 1.2))

    def _list(self) -> str:
        self._on_list()
        items, version = self._api.list(self._resource, self._namespace, labels=self._labels)
        changes = self._cache.replace_all(items, within=self._namespace)
        self._note()
        for before, after in changes:
            self._on_change(before, after)
        self.synced.set()
        return version

    def _watch(self, version: str) -> str:
        """Follow changes until the server ends the watch; the version to continue from."""
        events = self._api.watch(
            self._resource,
            version,
            self._namespace,
            labels=self._labels,
            timeout_s=WATCH_S * random.uniform(0.8, 1.2),
        )
        for event in events:
            self._note()
            version = str(event.object["metadata"].get("resourceVersion", version))
            match event.kind:
                case WatchKind.BOOKMARK:
                    pass
                case WatchKind.DELETED:
                    gone = self._cache.remove(event.object)
                    if gone is not None:
                        self._on_change(gone, None)
                case WatchKind.ADDED | WatchKind.MODIFIED:
                    is_new, before = self._cache.put(event.object)
                    if is_new:
                        self._on_change(before, event.object)
            if self._stop.is_set():
                break
        self._note()
        return version

    def _note(self) -> None:
        self._beat_s = self._heard_s = self._clock.monotonic_s()
