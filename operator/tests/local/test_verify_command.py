"""`tideline verify` as people meet it: its lines, its JSON, its exit codes."""

from __future__ import annotations

import json
import secrets
import textwrap
from pathlib import Path
from typing import Any

import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import values

_YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: orders}
spec:
  location: table
  type: MERGE_ON_READ
  recordKey: [id]
  ordering: [ts]
  schema:
  - {name: id, type: long}
  - {name: ts, type: long}
  - {name: v, type: string}
  ingest:
  - name: orders
    source: %s
    trigger: {every: 1s}
"""


def declared(folder: Path, source: str) -> Path:
    path = folder / "laketable.yaml"
    path.write_text(textwrap.dedent(_YAML % source))
    return path


def take_in(path: Path) -> None:
    assert run(["run", "-f", str(path), "--once", "--state", str(path.parent / "state")]) == 0


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


def test_what_cannot_be_compared_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "landing").mkdir()
    path = declared(tmp_path, "{format: csv, path: landing}")
    assert run(["verify", "-f", str(path)]) == 2
    assert "are not read again" in capsys.readouterr().err
    assert run(["verify", "other", "-f", str(path)]) == 2
    assert "no LakeTable has this name" in capsys.readouterr().err
    more = _YAML % "{format: csv, path: a}" + "  - {name: b, source: {format: csv, path: b}, "
    path.write_text(textwrap.dedent(more + "trigger: {every: 1s}}\n"))
    assert run(["verify", "-f", str(path)]) == 2
    assert "which are not compared together" in capsys.readouterr().err
