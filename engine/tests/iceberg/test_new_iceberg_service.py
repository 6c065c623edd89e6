"""A new service of Iceberg tables is one folder and one line: one that is registered is planned,
executed and reported on the command line and by the operator, with nothing else changed.

Kinds of operations are made of the registry when they are imported, so this file, run as a program,
adds the line first.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest

from tideline.iceberg.services import registry
from tideline.iceberg.services.due_facts import IcebergFacts
from tideline.iceberg.services.service import IcebergContext, IcebergService
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.report import ServiceReport
from tideline.services.run import ServiceRun


@dataclass(frozen=True, slots=True)
class Counted:
    """How many snapshots the table has."""

    snapshots: int

    def report(self) -> ServiceReport:
        return ServiceReport(f"counted {self.snapshots} snapshots", files_read=1)

    def to_json_object(self) -> dict[str, Any]:
        return {"snapshots": self.snapshots}


class CountSnapshots(IcebergService):
    """Counts the snapshots of a table."""

    name = "count_snapshots"
    follows = frozenset({"expire_snapshots"})

    def due(self, facts: IcebergFacts, _: Mapping[str, str]) -> Due | NotDue:
        count = len(facts.metadata.snapshots)
        return Due(f"{count} snapshots to count") if count else NotDue("nothing to count")

    def plan(self, context: IcebergContext, facts: IcebergFacts) -> Explanation | NotDue:
        found = self.due(facts, context.settings)
        return found if isinstance(found, NotDue) else Explanation(found.reason)

    def execute(self, context: IcebergContext) -> ServiceRun:
        return ServiceRun(self, (Counted(len(context.table.metadata.snapshots)),))


def said(*words: str) -> tuple[int, str]:
    """What a command answers, and what it prints."""
    from tideline.cli.main import run

    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = run(list(words))
    return code, output.getvalue()


def on_the_command_line(uri: str) -> dict[str, Any]:
    return {
        "all": json.loads(said("plan", uri, "--json")[1])["services"],
        "plan": said("plan", "count-snapshots", uri),
        "execute": json.loads(said("execute", "count_snapshots", uri, "--json")[1])["done"],
        "unknown": said("execute", "count_snapshot", uri),
    }


def by_the_operator(uri: str) -> dict[str, Any]:
    from tideline.iceberg.table.open_table import IcebergTable
    from tideline.ingest.execute.execute_operation import execute_operation
    from tideline.ingest.operation.operation import Operation, RunService
    from tideline_operator.decide.observed import Observed
    from tideline_operator.decide.observed_iceberg import ObservedIceberg
    from tideline_operator.decide.planner import plan
    from tideline_operator.report.status import operation_finished, operation_started
    from tideline_operator.testing.table_states import EMPTY, resolved_iceberg, starts

    def no_session(_: object) -> Any:
        raise AssertionError("it moves no rows")

    now_ms = 1_800_000_000_000
    loaded = IcebergTable.open(uri).loaded
    seen = Observed(iceberg=ObservedIceberg(loaded.metadata, loaded.metadata_location))
    started = starts(plan(resolved_iceberg(uri), EMPTY, seen, now_ms))
    of_it = [
        (start.reason, start.operation)
        for start in started
        if isinstance(start.operation.work, RunService)
        and start.operation.work.service.name == "count_snapshots"
    ]
    ((reason, operation),) = of_it
    operation = Operation.from_json_object(operation.to_json_object())
    result = execute_operation(operation, session_factory=no_session)
    running = operation_started(EMPTY, operation, 1, now_ms)
    status = operation_finished(running, result, now_ms)
    return {
        "reason": reason,
        "kind": operation.kind.value,
        "result": (result.message, result.files_read, list(result.audit)),
        "status": status.services["countSnapshots"].last_result,
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("new_service"))
    answer = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_the_command_line_lists_plans_and_executes_it(found: Any) -> None:
    said = found["command line"]
    assert {item["service"] for item in said["all"]} == {
        "count_snapshots",
        "expire_snapshots",
        "remove_orphan_files",
        "rewrite_data_files",
        "rewrite_manifests",
        "rewrite_position_deletes",
    }
    code, text = said["plan"]
    assert (code, text.splitlines()[0]) == (0, "count_snapshots: due, 3 snapshots to count.")
    assert said["execute"] == [{"snapshots": 3}]
    code, text = said["unknown"]
    assert code == 2
    assert "did you mean count_snapshots?" in text


def test_the_operator_plans_it_and_reports_in_its_words(found: Any) -> None:
    assert found["operator"] == {
        "reason": "3 snapshots to count",
        "kind": "count_snapshots",
        "result": ["counted 3 snapshots", 1, [{"snapshots": 3}]],
        "status": "counted 3 snapshots",
    }


if __name__ == "__main__":
    registry.SERVICES = (*registry.SERVICES, CountSnapshots())
    from tideline.testing.iceberg_model import IcebergModel

    table = IcebergModel.create_in(f"{sys.argv[1]}/orders", 3).location.uri
    print(
        json.dumps({"command line": on_the_command_line(table), "operator": by_the_operator(table)})
    )
