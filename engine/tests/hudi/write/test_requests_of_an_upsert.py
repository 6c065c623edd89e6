"""Requests to a real S3 server that an upsert costs: some for the commit, some a file group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.lake_table import LakeTable
from tideline.storage.request_count import requests_sent
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.minio_server import MinioServer

pytestmark = pytest.mark.minio

BUCKETS = 8
OF_A_COMMIT_MAX = 31
OF_A_STREAM_MAX = 56
"""With the lock taken five times, a clean, the archive and a compaction that are not due."""
OF_A_FILE_GROUP = Counter({"GET": 1, "PUT": 2, "HEAD": 1})
"""The base file; a marker and the new base file; whether the marker is still there."""
PLAIN = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
INDEX = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
}


@pytest.fixture
def proxy(minio_server: MinioServer) -> Iterator[FaultyStoreProxy]:
    """Counts what arrives and passes it on."""
    with FaultyStoreProxy(minio_server.address) as running:
        yield running


@pytest.fixture
def lake(
    proxy: FaultyStoreProxy,
    minio_server: MinioServer,
    minio_bucket: str,
    minio_credentials: None,  # noqa: ARG001
    tmp_path: Path,
) -> LakeTable:
    """One small file in each bucket, reached through the proxy."""
    options = {**minio_server.storage_options(), "endpoint": proxy.endpoint}
    uri = f"s3://{minio_bucket}/{tmp_path.name}"
    made = LakeTable.create(uri, record_key="id", properties=INDEX, storage_options=options)
    made.write(pa.table({"id": [f"k{n}" for n in range(400)], "v": [0] * 400}), "insert")
    return made


def requests(lake: LakeTable, proxy: FaultyStoreProxy, keys: list[str]) -> Counter[str]:
    """What an upsert of these keys sends, by method, from a process that has just opened it."""
    location = lake.hoodie_table.location
    lake = LakeTable.open(location.uri, storage_options=dict(location.options))
    before, counted_before = len(proxy.requests), requests_sent()
    report = lake.write(pa.table({"id": keys, "v": [1] * len(keys)}), options=PLAIN)
    assert report.files_written == len(keys)
    found = Counter(request.method for request in proxy.requests[before:])
    assert requests_sent() - counted_before == found.total()
    # The table is opened, and the batch looked at, before the write begins.
    assert 0 < report.requests <= found.total()
    assert report.core_seconds > 0
    return found


def test_each_file_group_costs_four_and_a_longer_timeline_nothing(
    lake: LakeTable, proxy: FaultyStoreProxy
) -> None:
    rows = lake.to_arrow(["_hoodie_file_name", "id"]).to_pylist()
    # The name of a file begins with the number of its bucket.
    key_of = {row["_hoodie_file_name"][:8]: row["id"] for row in rows}
    keys = [key_of[bucket] for bucket in sorted(key_of)]
    assert len(keys) == BUCKETS
    counter = requests(lake, proxy, keys[:1])
    assert counter.total() <= OF_A_COMMIT_MAX + OF_A_FILE_GROUP.total()
    all_of_them = requests(lake, proxy, keys)
    assert all_of_them - counter == Counter(
        {method: count * (BUCKETS - 1) for method, count in OF_A_FILE_GROUP.items()}
    )
    for _ in range(3):
        again = requests(lake, proxy, keys[:1])
    assert again == counter


def test_a_stream_sends_little_beside_its_rows(
    lake: LakeTable, proxy: FaultyStoreProxy, minio_bucket: str
) -> None:
    """Each commit cleans, looks at the archive and whether a compaction is due, of what it and the
    commits before it have read already."""
    location = lake.hoodie_table.location
    uri = f"s3://{minio_bucket}/stream"
    stream = LakeTable.create(
        uri,
        record_key="id",
        table_type="MERGE_ON_READ",
        properties=INDEX,
        storage_options=dict(location.options),
    )
    one_row = pa.table({"id": ["k1"], "v": [1]})
    for _ in range(3):
        stream.write(one_row)
    before = len(proxy.requests)
    stream.write(one_row)
    found = Counter(request.method for request in proxy.requests[before:])
    assert found.total() <= OF_A_STREAM_MAX, found
