"""The pages that a controller serves: the LakeTables of the cluster, and each of them. Read-only.

The leader shows what its caches hold. A standby, which the Service may choose as well, lists the
tables itself, at most every few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from tideline.clock import Clock
from tideline.report.html import headers_of
from tideline_operator.api_objects import LAKE_TABLES, Manifest
from tideline_operator.controller.health import Answer
from tideline_operator.kube import KubeApi
from tideline_operator.report.fleet_rows import cluster_page
from tideline_operator.report.lake_table_page import lake_table_page

PAGE_HEADERS = headers_of("")
"""These pages have no scripts, and may have none."""
_FRESH_S = 10.0
_TABLES = "/tables/"


class ClusterPages:
    """Answers by path; `known` gives the tables without asking the API server, or None."""

    def __init__(
        self,
        api: KubeApi,
        namespaces: Sequence[str],
        known: Callable[[], tuple[Manifest, ...] | None],
        clock: Clock,
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._known = known
        self._clock = clock
        self._lock = threading.Lock()
        self._listed: tuple[float, tuple[Manifest, ...]] | None = None

    def find(self, path: str) -> Answer | None:
        """The page for a path; None where there is none."""
        if path == "/":
            return self._fleet
        namespace, _, name = path.removeprefix(_TABLES).partition("/")
        return partial(self._table, namespace, name) if path.startswith(_TABLES) else None

    def _fleet(self) -> tuple[int, str]:
        return 200, cluster_page(self._tables(), self._clock.now_ms())

    def _table(self, namespace: str, name: str) -> tuple[int, str]:
        for item in self._tables():
            metadata = item["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return 200, lake_table_page(item)
        return 404, "<p>There is no such LakeTable.</p>\n"

    def _tables(self) -> tuple[Manifest, ...]:
        known = self._known()
        if known is not None:
            return known
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._listed is None or now_s - self._listed[0] > _FRESH_S:
                found = [
                    item
                    for namespace in self._namespaces or (None,)
                    for item in self._api.list(LAKE_TABLES, namespace)[0]
                ]
                self._listed = now_s, tuple(found)
            return self._listed[1]
