"""Operations of one table continue at the same time where the engine lets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.registry import TableService
from tideline.hudi.timeline.instant_time import InstantTime
from tideline_operator.decide.actions import Wait
from tideline_operator.decide.observed import ObservedTable
from tideline_operator.decide.planner import OBSERVE_RETRY_MS, plan
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus
from tideline_operator.testing.table_states import (
    FILES,
    NOW_MS,
    TABLE,
    observed_table,
    pending,
    planned,
    resolved,
    seen,
    started_kinds,
    starts,
)

ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"


def running(kind: str, subject: str = "") -> LakeTableStatus:
    entry = OperationStatus(
        id="it", kind=kind, subject=subject, phase=OperationPhase.RUNNING, started_at=Timestamp(1)
    )
    return LakeTableStatus(operations=(entry,))


def table_with(service: TableService | None) -> ObservedTable:
    """A table with the plan of a service that a process runs."""
    if service is None:
        return TABLE
    return replace(TABLE, pending=(planned(InstantTime("2"), service, is_idle=False),))


def begun(status: LakeTableStatus, service: TableService | None = None, **spec: Any) -> list[str]:
    observed = replace(seen(*FILES, table=table_with(service)), running=frozenset({"it"}))
    return started_kinds(plan(resolved(**spec), status, observed, NOW_MS))


def test_files_are_ingested_while_a_compaction_runs() -> None:
    assert begun(running("compaction"), COMPACTION)[0] == "ingest"
    assert begun(running("compaction")) == []


@pytest.mark.parametrize("kind", ["cleaning", "archival"])
def test_files_are_ingested_while_the_timeline_is_looked_after(kind: str) -> None:
    assert "ingest" in begun(running(kind))


def test_a_clustering_lets_files_in_that_it_does_not_refuse() -> None:
    assert begun(running("clustering"), CLUSTERING) == []
    properties = {"hoodie.clustering.updates.strategy": ALLOW}
    assert "ingest" in begun(running("clustering"), CLUSTERING, properties=properties)
    source = {"format": "parquet", "path": "landing"}
    ingest = {"name": "landing", "operation": "insert", "source": source}
    assert "ingest" in begun(running("clustering"), CLUSTERING, ingest=[ingest])


def test_an_ingest_is_alone_among_ingests() -> None:
    assert begun(running("ingest", "landing")) == []


def test_what_is_not_known_is_waited_for() -> None:
    observed = replace(seen(*FILES), running=frozenset({"another"}))
    assert starts(plan(resolved(), LakeTableStatus(), observed, NOW_MS)) == []


def test_nothing_begins_before_a_savepoint() -> None:
    savepoints: dict[str, Any] = {"savepoints": [{"name": "before"}]}
    observed = replace(seen(*FILES, table=observed_table("commit")), running=frozenset({"it"}))
    actions = plan(resolved(**savepoints), running("cleaning"), observed, NOW_MS)
    assert starts(actions) == []
    (wait,) = (action for action in actions if isinstance(action, Wait))
    assert (wait.until_ms, wait.reason[:11]) == (NOW_MS + OBSERVE_RETRY_MS, "it is decla")


def test_nothing_begins_before_a_dead_write_is_rolled_back() -> None:
    dead = replace(TABLE, pending=(pending("1", is_dead=True),))
    observed = replace(seen(*FILES, table=dead), running=frozenset({"it"}))
    assert starts(plan(resolved(), running("cleaning"), observed, NOW_MS)) == []
    alone = replace(observed, running=frozenset())
    (start,) = starts(plan(resolved(), LakeTableStatus(), alone, NOW_MS))
    assert start.operation.kind.value == "rollback"
