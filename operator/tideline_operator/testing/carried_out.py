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

_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")


def create_secret(case: ControllerCase, name: str, content: Mapping[str, str]) -> None:
    """Create it in the namespace of the case."""
    data = {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    case.api.create(SECRETS, secret, case.namespace)


def carry_out(
    case: ControllerCase, job: Manifest, variables: Mapping[str, str], *, without: str
) -> OperationResult:
    """The result, which the Job has then; `without` is a password that nothing of it shows."""
    return _carry_out(case, job, {**os.environ, **variables}, without)


def carry_out_in_pod(case: ControllerCase, job: Manifest, *, without: str) -> OperationResult:
    """The same, with what the Job's pod would have of Secrets: variables and files, and with
    nothing of this process's own at clouds."""
    bare = {name: text for name, text in os.environ.items() if not name.startswith(_CLOUDS)}
    return _carry_out(case, job, {**bare, **_of_secrets(case, job)}, without)


def _carry_out(
    case: ControllerCase, job: Manifest, environment: Mapping[str, str], without: str
) -> OperationResult:
    operation = case.cluster.operation_of(job)
    assert without not in json.dumps([operation.to_json_object(), job])
    path = case.folder / "operation.json"
    path.write_text(json.dumps(operation.to_json_object()))
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "execute", "--operation", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert without not in done.stdout + done.stderr
    result = OperationResult.from_json_object(json.loads(done.stdout))
    case.cluster.finish(job, result)
    return result


def _of_secrets(case: ControllerCase, job: Manifest) -> dict[str, str]:
    """The variables that a kubelet would make of references, and those that name its files."""
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    found, folders = {}, {}
    for volume in spec["volumes"]:
        for item in volume.get("secret", {}).get("items", ()):
            folder = case.folder / volume["name"]
            folder.mkdir(exist_ok=True)
            content = _content(case, volume["secret"]["secretName"])
            (folder / item["path"]).write_bytes(content[item["key"]])
            folders[volume["name"]] = folder
    mounts = {
        mount["mountPath"]: folders[mount["name"]]
        for mount in container["volumeMounts"]
        if mount["name"] in folders
    }
    for item in container["env"]:
        if reference := item.get("valueFrom", {}).get("secretKeyRef"):
            content = _content(case, reference["name"])
            assert reference["key"] in content or reference.get("optional")
            if reference["key"] in content:
                found[item["name"]] = content[reference["key"]].decode()
        for path, folder in mounts.items():
            if item.get("value", "").startswith(f"{path}/"):
                found[item["name"]] = item["value"].replace(path, str(folder))
    return found


def _content(case: ControllerCase, name: str) -> dict[str, bytes]:
    secret = case.api.get(SECRETS, name, case.namespace)
    assert secret is not None
    return {key: base64.b64decode(text) for key, text in secret["data"].items()}
