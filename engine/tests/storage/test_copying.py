"""Copies between stores: the same bytes, whichever way they go, and no half of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tideline.errors import ObjectNotFoundError
from tideline.storage.copying import copy_object
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.minio_server import MinioServer

BODY = bytes(range(256)) * 5_000


def test_on_a_local_disk_it_is_another_name_of_the_same_file(tmp_path: Path) -> None:
    source = StoreLocation.of(tmp_path / "in").open()
    target = StoreLocation.of(tmp_path / "out" / "deep").open()
    source.put("a/b.csv", BODY)
    target.put("a/b.csv", b"an older one")
    for _ in range(2):
        copy_object(source, "a/b.csv", target, "a/b.csv", size_bytes=len(BODY))
        assert target.get("a/b.csv") == BODY
    assert (tmp_path / "in/a/b.csv").samefile(tmp_path / "out/deep/a/b.csv")
    assert [path.name for path in (tmp_path / "out/deep/a").iterdir()] == ["b.csv"]
    source.delete("a/b.csv")
    assert target.get("a/b.csv") == BODY


def test_where_the_disk_has_no_links_the_bytes_and_the_time_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    source = StoreLocation.of(tmp_path / "in").open()
    target = StoreLocation.of(tmp_path / "out").open()
    source.put("b.csv", BODY)
    monkeypatch.setattr(os, "link", refuse)
    os.utime(tmp_path / "in/b.csv", (1_000, 1_000))
    copy_object(source, "b.csv", target, "b.csv", size_bytes=len(BODY))
    assert target.get("b.csv") == BODY
    assert (tmp_path / "out/b.csv").stat().st_mtime == 1_000


def test_between_other_stores_it_is_streamed(tmp_path: Path) -> None:
    source, target = MemoryStore(tmp_path.name), StoreLocation.of(tmp_path / "out").open()
    source.put("b.csv", BODY)
    copy_object(source, "b.csv", target, "b.csv", size_bytes=len(BODY))
    assert target.get("b.csv") == BODY
    with pytest.raises(ObjectNotFoundError):
        copy_object(source, "gone.csv", target, "gone.csv", size_bytes=1)
    assert target.head("gone.csv") is None


@pytest.mark.minio
def test_within_a_bucket_the_server_copies(
    minio_server: MinioServer, s3_location: StoreLocation
) -> None:
    with FaultyStoreProxy(minio_server.address) as proxy:
        options = {**dict(s3_location.options), "endpoint": proxy.endpoint}
        source = StoreLocation.of(f"{s3_location.uri}/in", options).open()
        target = StoreLocation.of(f"{s3_location.uri}/out", options).open()
        source.put("ä b/c.csv", BODY)
        sent = len(proxy.requests)
        copy_object(source, "ä b/c.csv", target, "d/c.csv", size_bytes=len(BODY))
        assert [request.method for request in proxy.requests[sent:]] == ["PUT"]
        assert target.get("d/c.csv") == BODY
        with pytest.raises(ObjectNotFoundError):
            copy_object(source, "gone.csv", target, "gone.csv", size_bytes=1)
