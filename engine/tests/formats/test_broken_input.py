"""For any bytes a parser gives a value or an error of Tideline's that can be shown.

Sound input is cut, flipped, given other lengths and other values; what was found once stays found,
for the seeds are fixed.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.bounded.read_limits import SETTING
from tideline.errors import TidelineError
from tideline.formats.archive_block import decode_archive_block, read_archive_frames
from tideline.formats.avro import decode_container, encode_container
from tideline.formats.avro_container import open_container
from tideline.formats.bloom import BloomFilter
from tideline.formats.log_block import BlockKind, HeaderKey, read_frames
from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.log.data_block import decode_data_block, encode_data_block
from tideline.hudi.log.delete_block import decode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.cleaning.plan import CleaningPlan
from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.compaction.plan import CompactionPlan
from tideline.hudi.services.log_compaction.plan import LogCompactionPlan
from tideline.hudi.services.restore.plan import RestorePlan
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.java_properties import parse_properties
from tideline.hudi.table.pending_plan import planned_groups, planned_slices
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.iceberg.data.deletion_vector import (
    BLOB_TYPE,
    decode_deletion_vector,
    encode_deletion_vector,
)
from tideline.iceberg.data.puffin import Blob, encode_puffin, read_blobs
from tideline.iceberg.manifest.manifest_file import read_manifest
from tideline.iceberg.manifest.manifest_list import read_manifest_list
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.reachable_file import live_files
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.parquet.spliced_file import SplicedFile, StoredParquet
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.usefixtures("version_6")

Parse = Callable[[bytes], object]

ROUNDS = 150
_LIES = (0, 1, -1, 2, 0x7F, 0x80, 0xFF, 2**15, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_TIME = "20260101000000000"
_HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**40, 1e308, float("inf"), float("nan"), "", "x", "-1", "\0",
    "\ud800", "../../x", [], {}, [None], [[]], {"a": None}, {"": {}}, [1, "a"],
)  # fmt: skip


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that input which asks for memory is refused soon."""
    monkeypatch.setenv(SETTING, "1Mi")


def damaged(sound: bytes, seed: int) -> bytes:
    """One or several kinds of damage."""
    chance = random.Random(seed)
    body = bytearray(sound)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(6):
            case 0:
                del body[at:]
            case 1 if at < len(body):
                body[at] ^= 1 << chance.randrange(8)
            case 2:
                form = chance.choice((">i", "<i", ">q", "<q", ">h"))
                size = struct.calcsize(form)
                bits = 8 * size - 1
                lie = chance.choice(_LIES)
                value = max(-(1 << bits), min((1 << bits) - 1, lie))
                body[at : at + size] = struct.pack(form, value)
            case 3:
                del body[at : at + chance.randrange(1, 40)]
            case 4:
                body[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 5:
                body[at : at + 1] = chance.choice((b"\0", b"\xff" * 12, b'"', b"{", b"[" * 600))
    return bytes(body)


def altered(document: Any, seed: int) -> Any:
    """The document with another value, or none, in one or more places."""
    chance = random.Random(seed)
    document = json.loads(json.dumps(document))
    for _ in range(chance.choice((1, 1, 2))):
        places = list(_places(document))
        holder, key = chance.choice(places)
        if chance.randrange(5) == 0:
            del holder[key]
        else:
            holder[key] = chance.choice(_HOSTILE_VALUES)
        if not isinstance(document, dict) or not document:
            break
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield value, number
            yield from _places(item)


def settle(parse: Callable[[], object]) -> None:
    """Run it: a value, or an error whose text can be written down."""
    try:
        parse()
    except TidelineError as error:
        assert len(str(error)) < 5_000
        str(error).encode("utf-8", "surrogatepass")


@cache
def table_samples() -> dict[str, bytes]:
    """Objects of a small Hudi table: a commit, a plan, an archive file."""
    table = SmallTable.in_memory()
    for version in range(1, 5):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
    store = table.store()
    commit = next(info.path for info in store.list(".hoodie") if info.path.endswith(".commit"))
    commit_body = store.get(commit)
    table.fake_clock.advance(60)
    archive_config = ArchivalConfig(commits_min=1, commits_max=2)
    execute_archival(table.lake().hoodie_table, archive_config)
    archive = next(i.path for i in store.list(".hoodie/archived") if ".archive." in i.path)
    samples = {
        "commit": commit_body,
        "archive": store.get(archive),
        "properties": store.get(".hoodie/hoodie.properties"),
    }
    table.forget()
    return samples


@cache
def iceberg_samples() -> dict[str, bytes]:
    """Metadata, a manifest list and a manifest of a small Iceberg table."""
    model = IcebergModel.create()
    model.append(range(4))
    model.delete_by_position([1])
    store = model.location.open()
    snapshot = model.metadata().snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    paths = [info.path for info in store.list("metadata")]
    manifests = read_manifest_list(
        store.get(f"metadata/{snapshot.manifest_list.rpartition('/')[2]}")
    )
    metadata = model.metadata().to_bytes()
    return {
        "metadata": metadata,
        "metadata.gz": gzip.compress(metadata, mtime=0),
        "list": store.get(f"metadata/{snapshot.manifest_list.rpartition('/')[2]}"),
        "manifest": store.get(
            next(path for path in paths if path.endswith(manifests[0].path.rpartition("/")[2]))
        ),
    }


_ROWS = pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.int64())})
_SCHEMA_JSON = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": ["null", "string"], "default": None},
            {"name": "n", "type": ["null", "long"], "default": None},
        ],
    }
)


def _log_block(log_format: LogFormat) -> bytes:
    return encode_data_block(log_format, _ROWS, _SCHEMA_JSON, InstantTime(_TIME))


def _parse_log(body: bytes) -> None:
    for frame in read_frames(lambda at, size: body[at : at + size], len(body), path="p"):
        content = body[frame.content_offset : frame.content_offset + frame.content_size_bytes]
        schema_json = frame.headers.get(HeaderKey.SCHEMA, "")
        if frame.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA):
            decode_data_block(frame.kind, content, schema_json, path="p")
        elif frame.kind is BlockKind.DELETE:
            decode_delete_block(content, path="p")


def _parse_archive(body: bytes) -> None:
    for frame in read_archive_frames(body, path="p"):
        decode_archive_block(body, frame, path="p")


def _parquet() -> bytes:
    body = io.BytesIO()
    bloom = BloomFilter.create(10)
    bloom.add_keys(_ROWS["id"])
    table = _ROWS.replace_schema_metadata(BaseFileFooter(bloom, "a", "b").to_metadata())
    pq.write_table(table, body, write_page_index=True)
    return body.getvalue()


def _splice(body: bytes) -> None:
    source = StoredParquet.of_bytes(memoryview(body), path="p")
    file = SplicedFile(io.BytesIO(), created_by="tideline")
    for group in source.footer.row_groups:
        file.append(source, group)
        file.append(source, group)
    if source.footer.row_groups:
        file.finish({})


def _bloom() -> bytes:
    bloom = BloomFilter.create(10)
    bloom.add_keys(["a", "b"])
    return base64.b64decode(bloom.to_base64())


def _puffin() -> bytes:
    vector = encode_deletion_vector(np.array([1, 5, 70_000]))
    blob = Blob(BLOB_TYPE, (1,), -1, -1, 0, 0, None, {"referenced-data-file": "f"})
    return encode_puffin([(blob, vector)], created_by="test")[0]


def _manifest(body: bytes, *, with_metrics: bool) -> None:
    (manifest, *_) = read_manifest_list(iceberg_samples()["list"])
    list(read_manifest(body, manifest, with_metrics=with_metrics))


SAMPLES: dict[str, tuple[Callable[[], bytes], Parse]] = {
    "commit": (
        lambda: table_samples()["commit"],
        lambda body: CommitMetadata.decode(body, path="p"),
    ),
    "archive": (lambda: table_samples()["archive"], _parse_archive),
    "properties": (
        lambda: table_samples()["properties"],
        lambda body: TableConfig(parse_properties(body), "memory://t").check_readable(),
    ),
    "savepoint": (
        lambda: Savepoint(InstantTime(_TIME), "me", 1, "why", {"p": ("f",)}).encode(),
        lambda body: Savepoint.decode(InstantTime(_TIME), body, path="p"),
    ),
    "metadata": (lambda: iceberg_samples()["metadata"], TableMetadata.parse),
    "metadata.gz": (lambda: iceberg_samples()["metadata.gz"], TableMetadata.parse),
    "manifest list": (lambda: iceberg_samples()["list"], read_manifest_list),
    "manifest": (lambda: iceberg_samples()["manifest"], partial(_manifest, with_metrics=True)),
    "manifest in part": (
        lambda: iceberg_samples()["manifest"],
        partial(_manifest, with_metrics=False),
    ),
    "manifest's files": (
        lambda: iceberg_samples()["manifest"],
        lambda body: list(live_files(body, path="p")),
    ),
    "container": (
        lambda: iceberg_samples()["list"],
        lambda body: list(open_container(body).records()),
    ),
    "avro log": (lambda: _log_block(LogFormat.AVRO), _parse_log),
    "parquet log": (lambda: _log_block(LogFormat.PARQUET), _parse_log),
    "parquet footer": (_parquet, lambda body: read_footer(io.BytesIO(body), path="p")),
    "parquet row groups": (_parquet, _splice),
    "bloom filter": (
        _bloom,
        lambda body: BloomFilter.from_base64(base64.b64encode(body).decode()),
    ),
    "puffin": (_puffin, lambda body: read_blobs(body, path="p")),
    "deletion vector": (
        lambda: encode_deletion_vector(np.array([1, 5, 70_000])),
        lambda body: decode_deletion_vector(body, path="p"),
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    make, parse = SAMPLES[name]
    sound = make()
    parse(sound)
    for seed in range(ROUNDS):
        settle(partial(parse, damaged(sound, seed)))


PLANS: dict[str, Callable[[dict[str, Any]], object]] = {
    "HoodieRollbackPlan": lambda record: RollbackPlan.from_avro(record, path="p"),
    "HoodieCleanerPlan": CleaningPlan.from_avro,
    "HoodieCompactionPlan": lambda record: CompactionPlan.from_avro(record, path="p"),
    "HoodieRequestedReplaceMetadata": lambda record: ClusteringPlan.from_avro(record, path="p"),
    "HoodieRestorePlan": RestorePlan.from_avro,
}
_FILE = f"0f5b2a4e-aaaa-4bbb-8ccc-1234567890ab-0_0-1-2_{_TIME}.parquet"
_SLICE = {"fileId": "f-0", "partitionPath": "p", "dataFilePath": _FILE, "deltaFilePaths": []}
RECORDS: dict[str, dict[str, Any]] = {
    "HoodieRollbackPlan": {
        "instantToRollback": {"commitTime": _TIME, "action": "commit"},
        "RollbackRequests": [
            {
                "partitionPath": "p",
                "fileId": "f-0",
                "latestBaseInstant": _TIME,
                "filesToBeDeleted": [_FILE],
                "logBlocksToBeDeleted": {},
            }
        ],
    },
    "HoodieCleanerPlan": {
        "policy": "KEEP_LATEST_COMMITS",
        "earliestInstantToRetain": {"timestamp": _TIME, "action": "commit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": _TIME,
        "filePathsToBeDeletedPerPartition": {
            "p": [{"filePath": _FILE, "isBootstrapBaseFile": False}]
        },
        "partitionsToBeDeleted": ["q"],
        "extraMetadata": {"a": "b"},
    },
    "HoodieCompactionPlan": {
        "operations": [{**_SLICE, "baseInstantTime": _TIME, "metrics": {"a": 1.0}}],
        "extraMetadata": {},
    },
    "HoodieRequestedReplaceMetadata": {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [{"slices": [_SLICE], "metrics": {}, "numOutputFileGroups": 1}],
            "strategy": {"strategyClassName": "x", "strategyParams": {}},
        },
    },
    "HoodieRestorePlan": {
        "savepointToRestoreTimestamp": _TIME,
        "instantsToRollback": [{"commitTime": _TIME, "action": "commit"}],
    },
}


@pytest.mark.parametrize("name", PLANS)
def test_damaged_plans_give_a_value_or_an_error_of_ours(name: str) -> None:
    body = encode_container(name, RECORDS[name])

    def parse(body: bytes) -> None:
        PLANS[name](decode_container(body, path="p"))
        for action in (Action.COMPACTION, Action.REPLACECOMMIT):
            planned_groups(body, action, path="p")
            planned_slices(body, action, path="p")

    parse(body)
    for seed in range(ROUNDS):
        settle(partial(parse, damaged(body, seed)))
        settle(partial(PLANS[name], altered(RECORDS[name], seed)))


def test_altered_documents_give_a_value_or_an_error_of_ours() -> None:
    """Sound JSON that says something else."""
    metadata = json.loads(iceberg_samples()["metadata"])
    commit = json.loads(table_samples()["commit"])
    checkpoint = {
        "version": 1, "generation": 1, "watermark": [1, "p"], "floor": None, "settled": 1,
        "taken": "", "drained": None, "columns": [["a", "b"]],
    }  # fmt: skip

    def parse(seed: int) -> Iterator[Callable[[], object]]:
        text = json.dumps(altered(metadata, seed)).encode()
        yield lambda: TableMetadata.parse(text, path="p").to_bytes()
        body = json.dumps(altered(commit, seed)).encode()
        yield lambda: CommitMetadata.decode(body, path="p").encode()
        kept = json.dumps(altered(checkpoint, seed))
        yield lambda: Checkpoint.decode(kept, name="i")
        record = altered(RECORDS["HoodieCompactionPlan"], seed)
        yield lambda: LogCompactionPlan.from_avro(record, path="p")

    for seed in range(3 * ROUNDS):
        for function in parse(seed):
            settle(function)
