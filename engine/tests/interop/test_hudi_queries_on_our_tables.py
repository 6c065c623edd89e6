"""Hudi's incremental and time-travel queries over commits of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import SCHEMA, typed_rows
from tideline.testing.interop_table import InteropLayout, InteropTable
from tideline.testing.table_model import canonical_with_meta

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


def test_time_travel_and_incremental_reads_agree_with_ours(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = InteropTable(InteropLayout("history"), tmp_path, spark, hudi_peer)
    table.create(SCHEMA)
    steps = [
        ("bulk_insert", typed_rows(range(20), version=1)),
        ("upsert", typed_rows(range(10, 25), version=2)),
        ("delete", typed_rows(range(0, 25, 5), version=3)),
        ("upsert", typed_rows(range(3, 6), version=4)),
    ]
    instants, states = [], []
    for operation, rows in steps:
        instants.append(table.write(operation, rows).instant)
        states.append(table.model.rows())
    ours = LakeTable.open(table.uri)

    for instant, expected in zip(instants, states, strict=True):
        as_of = {"as.of.instant": instant}
        travelled = {"hoodie.read.as.of.timestamp": instant}
        assert table.model.canonical(hudi_peer.read(table.uri, as_of)) == expected
        assert table.model.canonical(hudi_peer.read_with_hudi_rs(table.uri, travelled)) == expected
        assert table.model.canonical(ours.snapshot(spark, as_of=instant).toArrow()) == expected

    # Hudi's ranges are of completion times, which ours take a commit's own time for.
    completed = {
        str(candidate.time): str(candidate.completed_at)
        for candidate in ours.timeline().completed()
    }
    for first, last in ((0, 3), (0, 1), (1, 3), (2, 3)):
        window = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": completed[instants[first]],
            "hoodie.datasource.read.end.instanttime": completed[instants[last]],
        }
        changed = ours.incremental(spark, after=instants[first], until=instants[last]).toArrow()
        theirs = canonical_with_meta(hudi_peer.read(table.uri, window))
        assert canonical_with_meta(changed) == theirs
        assert {row["_hoodie_commit_time"] for row in theirs} <= set(instants[first + 1 : last + 1])
    assert ours.incremental(spark, after=instants[0]).count() > 0
