"""`tideline verify` as people meet it: its lines, its JSON, its exit codes."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import values
from tideline_operator.testing.local_run import KEYED_VALUES, declare_table, run_here

_SECOND = """\
  - name: {name}
    source: {{format: parquet, path: {name}}}
    operation: {operation}
    trigger: {{every: 1s}}
"""


def declared(folder: Path, source: str, kind: str = "type: MERGE_ON_READ") -> Path:
    return declare_table(folder, source, f"{kind}{KEYED_VALUES}")


def take_in(path: Path) -> None:
    assert run_here(path) == 0


@pytest.mark.kafka
def test_what_differs_is_named_and_ends_with_another_code(
    kafka_broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"orders-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    path = declared(
        tmp_path, f"{{format: kafka, brokers: '{kafka_broker.address}', topics: [{topic}]}}"
    )
    kafka_broker.produce(topic, [*values((n, 1, "a") for n in range(50)), ("7", None)])
    take_in(path)

    def asked(*options: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(["verify", *options])
        return code, capsys.readouterr().out

    code, out = asked("--source", str(path))
    assert (code, out.splitlines()[-1]) == (0, "49 rows compared: all are equal")
    table = tideline.open(str(tmp_path / "table"))
    table.upsert([{"id": 3, "ts": 1, "v": "changed"}, {"id": 7, "ts": 1, "v": "added"}])
    table.delete("id = 9")
    for name in ("orders", "default/orders", str(tmp_path / "table")):
        code, out = asked(name, "--source", str(path))
        assert code == 1
        assert "47 equal, 1 missing in the table, 1 extra in the table, 1 with other values" in out
        assert "v: a -> changed" in out
    code, out = asked("-f", str(path), "--limit", "1", "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["is_equal"], len(found["rows"])) == (1, False, 1)
    assert (found["missing"], found["extra"], found["different"]) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["type: MERGE_ON_READ", "format: Iceberg"])
def test_a_table_of_several_ingests_of_files_is_compared_with_all_of_them(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = declared(tmp_path, "{format: parquet, path: orders}", kind)
    path.write_text(path.read_text() + _SECOND.format(name="gone", operation="delete"))
    for name, columns in (
        ("orders", {"id": [1, 2, 3], "ts": [1, 1, 1], "v": ["a", "b", "c"]}),
        ("gone", {"id": [2]}),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "1.parquet")
        take_in(path)
    capsys.readouterr()
    assert run(["verify", "-f", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["orders", "gone"]
    assert lines[-1] == "2 rows compared: all are equal"
    opened = tideline.open_iceberg if "Iceberg" in kind else tideline.open
    table = opened(str(tmp_path / "table"))
    table.upsert([{"id": 2, "ts": 1, "v": "b"}, {"id": 3, "ts": 1, "v": "changed"}])
    assert run(["verify", "-f", str(path), "--json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["extra"], found["different"]) == (1, 1, 1)
    assert [item["ingest"] for item in found["ingests"]] == ["orders", "gone"]
    assert found["ingest"] == "orders, gone"


def test_what_cannot_be_compared_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "landing").mkdir()
    path = declared(tmp_path, "{format: csv, path: landing}")
    assert run(["verify", "-f", str(path)]) == 2
    assert "there is no table yet" in capsys.readouterr().err
    assert run(["verify", "other", "-f", str(path)]) == 2
    assert "no LakeTable has this name" in capsys.readouterr().err
    path.write_text(path.read_text().replace("csv", "parquet"))
    for name in ("landing", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [1], "ts": [1], "v": ["a"]}), tmp_path / name / "1.parquet")
    take_in(path)
    path.write_text(path.read_text().replace("path: landing", "path: other"))
    assert run(["verify", "-f", str(path)]) == 2
    assert "its source is another now" in capsys.readouterr().err
