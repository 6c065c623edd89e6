"""Clustering and tables with a bucket index."""

from __future__ import annotations

import pytest

from tideline.errors import (
    UnsupportedTableError,
)
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import (
    schedule_clustering,
)
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.timeline.instant import Instant
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch


def test_clustering_leaves_a_table_with_a_bucket_index_alone() -> None:
    """Its rows are found by the names of file groups, which clustering would change."""
    table = SmallTable.in_memory(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    )
    table.write("insert", batch(range(8), 1))
    due = {"hoodie.clustering.inline.max.commits": "1"}
    outcome = local_services(table, due).run(CLUSTERING)
    assert outcome.not_due is not None
    assert "bucket index" in outcome.not_due.reason
    hoodie = table.lake().hoodie_table
    with hoodie.lock().acquire(timeout_s=5):
        planned = schedule_clustering(hoodie, ClusteringConfig(), commits_max=1)
    assert isinstance(planned, Instant)
    with pytest.raises(UnsupportedTableError, match="bucket index") as caught:
        local_services(table, {}).run_pending(CLUSTERING)
    assert str(planned.time) in str(caught.value)
    assert {value for _, value in table.values()} == {1}
    table.forget()
