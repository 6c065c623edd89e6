"""Events of OpenLineage about operations: started, completed, failed.

Off unless OPENLINEAGE_URL says where they go; OPENLINEAGE_ENDPOINT, OPENLINEAGE_API_KEY,
OPENLINEAGE_NAMESPACE and OPENLINEAGE_DISABLED mean what they mean to the library's own client. None
of its configuration files is read: that of the current folder may be somebody else's.

1. An attempt at an operation is a run of the job TABLE.KIND, for an ingest TABLE.ingest.NAME.
2. Its output is the table, by its location; the input of an ingest is its source, that of a service
   the table. What a commit wrote is in the event of its end, and so is its instant, as the version.
3. One thread sends the events in their order. An operation waits for them at its end, for a few
   seconds, and never fails because of them: a server that is away loses events and nothing else.

Source: OpenLineage's object model and naming of datasets, 2-0-2.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tideline.distribution import installation, installed_version
from tideline.ingest.operation.operation import CreateTable, IngestRange, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.secret_values import masked
from tideline.storage.kinds import kind_of
from tideline.wording import counted

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

URL = "OPENLINEAGE_URL"
_SECONDS_PER_EVENT = 5.0
_SECONDS_AT_END = 10.0
_PRODUCER = "https://tideline.dev/engine"
_log = logging.getLogger(__name__)

Send = Callable[["RunEvent"], object]

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="openlineage")
"""It starts with the first event."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A place of rows as OpenLineage names it."""

    namespace: str
    name: str

    @classmethod
    def at(cls, uri: str) -> Dataset:
        """`s3://bucket` and the key, or `file` and the path, as in events of Spark and Flink."""
        found = urlsplit(uri)
        if found.scheme in ("", "file"):
            return cls("file", found.path.rstrip("/") or "/")
        kind = kind_of(found.scheme)
        scheme = found.scheme if kind is None else kind.scheme
        return cls(f"{scheme}://{found.netloc}", found.path.strip("/") or "/")

    @classmethod
    def of_table(cls, target: TableTarget) -> Dataset:
        """The table: by its location, or where a catalog keeps it by its name there."""
        if target.catalog is None or target.location.uri:
            return cls.at(target.location.uri)
        properties = dict(target.catalog.properties)
        return cls(properties.get("uri") or target.catalog.catalog, target.catalog.table)


@dataclass(slots=True)
class LineageRun:
    """One attempt at an operation, whose events go to `send`; without one there are none."""

    operation: Operation
    send: Send | None
    run_id: str = ""
    seconds_at_end: float = _SECONDS_AT_END
    sent: list[Future[None]] = field(default_factory=list)

    @classmethod
    def start(cls, operation: Operation) -> LineageRun:
        """Say that it has started, where the environment names a server of events. Rehearsals have
        none."""
        is_dry = isinstance(operation.work, IngestRange) and operation.work.is_dry
        send = None if is_dry else _sender(*_settings())
        run = cls(operation, send)
        if send is not None:
            from openlineage.client.uuid import generate_new_uuid

            run.run_id = str(generate_new_uuid())
            run._report("START", None)
        return run

    def end(self, result: OperationResult) -> None:
        """Say how it ended, and wait for the events to be sent."""
        self._report("FAIL" if result.outcome is Outcome.FAILED else "COMPLETE", result)
        if self.sent:
            _, unsent = wait_for(self.sent, timeout=self.seconds_at_end)
            if unsent:
                _log.warning("OpenLineage: %s not sent in time", counted(len(unsent), "event"))

    def _report(self, state: str, result: OperationResult | None) -> None:
        if self.send is None:
            return
        try:
            event = _event(self.run_id, self.operation, state, result)
            self.sent.append(_THREAD.submit(_sent_or_logged, self.send, event))
        except Exception as error:
            # What is said about an operation never ends it.
            _log.warning("an event of OpenLineage cannot be made: %s", masked(str(error)))


def _sent_or_logged(send: Send, event: RunEvent) -> None:
    try:
        send(event)
    except Exception as error:
        _log.warning("an event of OpenLineage was not sent: %s", masked(str(error)))


def _event(
    run_id: str, operation: Operation, state: str, result: OperationResult | None
) -> RunEvent:
    from openlineage.client.event_v2 import (
        InputDataset,
        Job,
        OutputDataset,
        Run,
        RunEvent,
        RunState,
    )
    from openlineage.client.facet_v2 import job_type_job, processing_engine_run, set_producer

    version = installed_version()
    set_producer(f"{_PRODUCER}/{version}")
    run_facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=version, name="tideline"
        )
    }
    if result is not None and state == "FAIL":
        from openlineage.client.facet_v2 import error_message_run

        run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=masked(result.message), programmingLanguage="python"
        )
    kind = job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="TIDELINE", jobType=operation.kind.value.upper()
    )
    table = Dataset.of_table(operation.table)
    facets, output_facets = _written(result)
    return RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=RunState[state],
        run=Run(runId=run_id, facets=run_facets),
        job=Job(
            namespace=os.environ.get("OPENLINEAGE_NAMESPACE") or "tideline",
            name=_job_name(operation),
            facets={"jobType": kind},
        ),
        inputs=[InputDataset(item.namespace, item.name) for item in _inputs(operation, table)],
        outputs=[
            OutputDataset(table.namespace, table.name, facets=facets, outputFacets=output_facets)
        ],
    )


def _written(result: OperationResult | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facets of the table, and of what this run wrote into it."""
    if result is None or result.outcome is not Outcome.SUCCEEDED or result.instant is None:
        return {}, {}
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        output_statistics_output_dataset,
    )

    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=result.instant)
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=result.rows_written, size=result.bytes_written, fileCount=result.files_written
    )
    return {"version": version}, {"outputStatistics": statistics}


def _inputs(operation: Operation, table: Dataset) -> list[Dataset]:
    match operation.work:
        case IngestRange(source=source):
            return [Dataset.at(source.uri)]
        case CreateTable():
            return []
        case _:
            return [table]


def _job_name(operation: Operation) -> str:
    name = f"{operation.table.name}.{operation.kind}"
    if isinstance(operation.work, IngestRange):
        return f"{name}.{operation.work.name}"
    return name


def _settings() -> tuple[str, str, str]:
    """URL, endpoint and API key; all empty where no events are wanted."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() in ("true", "1"):
        return "", "", ""
    names = (URL, "OPENLINEAGE_ENDPOINT", "OPENLINEAGE_API_KEY")
    url, endpoint, key = (os.environ.get(name, "") for name in names)
    return (url, endpoint, key) if url else ("", "", "")


@cache
def _sender(url: str, endpoint: str, key: str) -> Send | None:
    """What sends an event there; None without a URL, or without the library, which is logged."""
    if not url:
        return None
    try:
        from openlineage.client.transport.http import HttpConfig, HttpTransport
    except ModuleNotFoundError:
        _log.warning("%s is set, and no event is sent: %s", URL, installation("lineage"))
        return None
    settings: dict[str, Any] = {"url": url, "timeout": _SECONDS_PER_EVENT, "retry": {"total": 1}}
    if endpoint:
        settings["endpoint"] = endpoint
    if key:
        settings["auth"] = {"type": "api_key", "apiKey": key}
    try:
        return HttpTransport(HttpConfig.from_dict(settings)).emit
    except Exception as error:
        _log.warning("%s is set, and no event is sent: %s", URL, masked(str(error)))
        return None
