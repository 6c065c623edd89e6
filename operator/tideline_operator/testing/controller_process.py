"""`tideline-operator controller` in its own process, as its image runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

from tideline.testing.free_port import free_ports
from tideline_operator.testing.controller_case import LOOPBACK_RANGES
from tideline_operator.testing.image_packages import image_packages


class ControllerInProcess:
    """Manages one namespace. `number` identifies it; its log is in `folder`."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path, number: int = 0) -> None:
        self.health_port, self.metrics_port, self.ui_port = free_ports(3)
        self.log = folder / f"controller-{number}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(_paths()),
            "TIDELINE_ENGINE_IMAGE": "localhost/tideline-engine:dev",
            "TIDELINE_NAMESPACES": namespace,
            "TIDELINE_EGRESS_ALLOWED_RANGES": LOOPBACK_RANGES,
            "TIDELINE_HEALTH_PORT": str(self.health_port),
            "TIDELINE_METRICS_PORT": str(self.metrics_port),
            "TIDELINE_UI_PORT": str(self.ui_port),
            "POD_NAME": f"controller-{number}",
            "POD_NAMESPACE": namespace,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                # Without the packages of this environment.
                [sys.executable, "-S", "-m", "tideline_operator", "controller", "--kubeconfig",
                 str(kubeconfig)],
                env=environment, stdout=log, stderr=log,
            )  # fmt: skip

    def is_ready(self) -> bool:
        """What the kubelet asks."""
        try:
            url = f"http://127.0.0.1:{self.health_port}/readyz"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def page(self, path: str) -> str:
        """One of the pages that it serves; empty where there is none."""
        try:
            url = f"http://127.0.0.1:{self.ui_port}{path}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            assert refused.code == 404, refused
            return ""

    def end(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.wait()


def _paths() -> list[str]:
    """Where the image has its packages, and our own code as these tests import it."""
    of_this_environment = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    others = (path for path in sys.path if path and path not in of_this_environment)
    return [str(image_packages()), *others]
