"""Helm, and the chart as its release in a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.harness.cluster import Cluster
from e2e.harness.installation import IMAGES, NAMESPACE, RANGES

_RELEASE = "tideline"
_CHART = Path(__file__).resolve().parents[2] / "charts" / "tideline"


class HelmRelease:
    """The operator as Helm installs it, with the images under test."""

    def __init__(self, program: Path, cluster: Cluster) -> None:
        self._program = program
        self._cluster = cluster

    def install(self, **values: Any) -> None:
        """`helm install`, as install.md has it, until its pods are ready."""
        for image in IMAGES.values():
            self._cluster.load_image(image)
        self._apply("install", "--create-namespace", values=values)

    def upgrade(self, **values: Any) -> None:
        """`helm upgrade`, until the pods with the new values are ready."""
        self._apply("upgrade", values=values)

    def uninstall(self) -> None:
        self._helm("uninstall", _RELEASE, "--wait", "--ignore-not-found")

    def status(self) -> str:
        """`deployed`, once it is."""
        return str(json.loads(self._helm("status", _RELEASE, "-o", "json"))["info"]["status"])

    def _apply(self, verb: str, *options: str, values: Mapping[str, Any]) -> None:
        given = json.dumps({**_images(), **values})
        waits = ("--wait", "--timeout", "2m", "--values", "-")
        self._helm(verb, _RELEASE, str(_CHART), *options, *waits, given=given)

    def _helm(self, *arguments: str, given: str = "") -> str:
        place = (f"--kubeconfig={self._cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        done = subprocess.run(
            [str(self._program), *arguments, *place], input=given, capture_output=True, text=True
        )
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout


def _images() -> dict[str, Any]:
    parts = {name: _image(image) for name, image in IMAGES.items()}
    return {
        "image": parts["tideline-operator"],
        "engine": {"image": parts["tideline-engine"]},
        "egress": {"allowedRanges": [RANGES]},
    }


def _image(name: str) -> dict[str, str]:
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.partition(":")
    return {"registry": registry, "repository": repository, "tag": tag}
