"""Operations of a controller's Jobs, carried out as pods do: with a Secret in their environment."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping

from tideline.ingest.operation.result import OperationResult
from tideline_operator.api_objects import SECRETS, Manifest
from tideline_operator.testing.controller_case import ControllerCase


def create_secret(case: ControllerCase, name: str, content: Mapping[str, str]) -> None:
    """Create it in the namespace of the case."""
    data = {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    case.api.create(SECRETS, secret, case.namespace)


def carry_out(
    case: ControllerCase, job: Manifest, variables: Mapping[str, str], *, without: str
) -> OperationResult:
    """The result, which the Job has then; `without` is a password that nothing of it shows."""
    operation = case.cluster.operation_of(job)
    assert without not in json.dumps([operation.to_json_object(), job])
    path = case.folder / "operation.json"
    path.write_text(json.dumps(operation.to_json_object()))
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "execute", "--operation", str(path)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = OperationResult.from_json_object(json.loads(done.stdout))
    case.cluster.finish(job, result)
    return result
