"""No table takes the memory that the controller needs for all others."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tideline.bounded.read_limits import SETTING
from tideline.formats.avro import encode_long
from tideline.formats.avro_blocks import MAGIC
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.snapshot_producer import commit_snapshot, new_snapshot_id
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import ModelFiles
from tideline.testing.iceberg_row_delta import RowDelta
from tideline.testing.in_time import in_time
from tideline.testing.small_table import SmallTable, batch
from tideline_operator.observe.observation import Observer
from tideline_operator.testing.table_states import EMPTY, resolved_iceberg

pytestmark = pytest.mark.usefixtures("version_6")

_MIB = 1024 * 1024
_LIMIT_MIB = 16
"""What the chart sets, for a container of 512 MiB."""
_MEMORY_MIB = 400
"""The container's memory without what a controller with a thousand tables has."""


def iceberg_metadata(extra: str) -> bytes:
    """Valid metadata of a table without snapshots, and an unknown field."""
    model = IcebergModel.create()
    document = dict(model.metadata().json()) | {"extra": None}
    return json.dumps(document).replace('"extra": null', f'"extra": {extra}').encode()


def small_values(count: int) -> str:
    return "[" + ",".join(["{}"] * count) + "]"


def folder_with(root: Path, metadata: bytes) -> str:
    (root / "metadata").mkdir(parents=True)
    (root / "metadata" / "v1.metadata.json").write_bytes(metadata)
    return root.as_uri()


def look(uri: str) -> str:
    observed = Observer(IcebergModel.create().clock).observe(resolved_iceberg(uri), EMPTY)
    return "sound" if observed.problem is None else observed.problem.message


def test_four_hostile_tables_at_once_fit_the_memory_of_the_controller(tmp_path: Path) -> None:
    """Just within the limits, where they take most memory: in a new process, for its peak."""
    # An object and the comma behind it count as two.
    values = small_values(_LIMIT_MIB * _MIB // 16 // 2 - 2_000)
    padded = iceberg_metadata(values[:-1] + ',"' + "\U0001f600" * (3 * _MIB) + '"]')
    for number in range(4):
        folder_with(tmp_path / f"table{number}", gzip.compress(padded, 1))
    command = [sys.executable, __file__, str(tmp_path)]
    environment = {SETTING: f"{_LIMIT_MIB}Mi", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["looks"] == ["sound"] * 4
    assert found["peak_mib"] < _MEMORY_MIB


@pytest.mark.parametrize("name", ["bomb", "values", "deep"])
def test_a_metadata_file_beyond_the_limits_is_a_problem_of_its_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "1Mi")
    metadata = {
        "bomb": lambda: gzip.compress(b" " * (8 * _MIB)),
        "values": lambda: gzip.compress(iceberg_metadata(small_values(100_000))),
        "deep": lambda: iceberg_metadata("[" * 5_000 + "]" * 5_000),
    }[name]()
    problem = look(folder_with(tmp_path / "table", metadata))
    assert "v1.metadata.json" in problem
    assert ("levels deep" if name == "deep" else f"set {SETTING} higher") in problem


@pytest.mark.parametrize(
    "place", ["file:///dev/zero", "/proc/self/environ", "s3://other/x", "memory://other/x"]
)
def test_a_manifest_list_elsewhere_is_a_problem_of_its_table(place: str) -> None:
    """Nothing of the controller's machine is opened, and no other bucket."""
    model = IcebergModel.create()
    model.append(range(2))
    document = dict(model.metadata().json())
    document["snapshots"] = [
        {**snapshot, "manifest-list": place} for snapshot in document["snapshots"]
    ]
    body = TableMetadata.of(document).to_bytes()
    model.location.open().put(f"metadata/v{model.operations().load().version}.metadata.json", body)
    problem = in_time(lambda: look(model.location.uri))
    assert "names a location that is not the table's own" in problem


def test_more_files_than_the_controller_can_hold_are_a_problem_of_their_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A manifest of 20 bytes an entry; each would become a kilobyte."""
    model = IcebergModel.create()
    model.append(range(2))
    operations = model.operations()
    files = ModelFiles.of(operations.io, model.metadata()).write_rows(range(2), 0)
    change = RowDelta("append", [*files] * 600)
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    change.bind(operations.io, writer)
    commit_snapshot(operations, change, writer, clock=model.clock)
    monkeypatch.setenv(SETTING, "64Ki")
    observer = Observer(model.clock, lambda _, __: model.location.open())
    observed = observer.observe(resolved_iceberg(model.location.uri), EMPTY)
    assert observed.problem is not None
    assert "lists more than 1,024 files" in observed.problem.message


def test_a_clean_plan_that_inflates_is_a_problem_of_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And `check` names it, does not offer to delete it, and finds other errors."""
    monkeypatch.setenv(SETTING, "1Mi")
    table = SmallTable.in_memory()
    table.write("insert", batch(range(8), 1))
    store = table.store()
    time = "20300101000000000"
    store.put(f".hoodie/{time}.clean.requested", clean_plan_bomb())
    store.put(".hoodie/20300101000000001.commit", b"{" * 100)
    findings = table.lake().check()
    (plan,) = [finding for finding in findings if finding.check == "plans"]
    assert (plan.path, plan.repair) == (f".hoodie/{time}.clean.requested", None)
    assert f"set {SETTING} higher" in plan.message
    assert any(finding.path == ".hoodie/20300101000000001.commit" for finding in findings)
    table.forget()


def clean_plan_bomb() -> bytes:
    content = encode_long(32 * _MIB) + bytes(32 * _MIB)
    stream = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    block = stream.compress(content) + stream.flush()
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    texts = {"avro.schema": json.dumps(schema), "avro.codec": "deflate"}
    parts = [MAGIC, encode_long(len(texts))]
    for key, text in texts.items():
        parts += [encode_long(len(key)), key.encode(), encode_long(len(text)), text.encode()]
    marker = bytes(16)
    parts += [encode_long(0), marker, encode_long(1), encode_long(len(block)), block, marker]
    return b"".join(parts)


def _peak_mib() -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def _main(folder: str) -> None:
    uris = [path.as_uri() for path in sorted(Path(folder).iterdir())]
    with ThreadPoolExecutor(4) as pool:
        looks = list(pool.map(look, uris))
    print(json.dumps({"looks": looks, "peak_mib": _peak_mib()}))


if __name__ == "__main__":
    _main(sys.argv[1])
