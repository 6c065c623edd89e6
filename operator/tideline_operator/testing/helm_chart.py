"""The Helm chart as Helm sees it: rendered, linted, and written out for those without Helm.

    python -m tideline_operator.testing.helm_chart charts/tideline out/release

writes operator.yaml into the chart's folder, and what a release has into the other: crds.yaml,
operator.yaml, and both in install.yaml, as `make install-yaml` does. Helm is the one in the cache
(`python -m e2e.build tools`) or on the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

RELEASE = "tideline"
NAMESPACE = "tideline-system"
COMMITTED = "operator.yaml"
"""What is kept in the chart's folder, for those who install from a clone."""
# Without a cluster Helm assumes an ancient version unless it is given one.
_KUBERNETES = "--kube-version=1.34.0"

_HEADER = """\
# Tideline {version}{what}.
# Rendered from the Helm chart by `make install-yaml`; kubectl apply --server-side -f {name}
"""
_WITHOUT_HELM = {"namespace": {"create": True}}


class ChartRefusedError(Exception):
    """Helm does not accept the chart or the values; the message is Helm's."""


def helm_program() -> Path | None:
    """Helm from the cache or from the PATH; None when there is none."""
    home = os.environ.get("HOME") or str(Path.home())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "tideline"
    built, found = cache / "bin" / "helm", shutil.which("helm")
    if built.exists():
        return built
    return None if found is None else Path(found)


def rendered(
    chart: Path, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE
) -> str:
    """The chart's manifests without the CRDs, under `values` over its own.

    Raises ChartRefusedError with Helm's message.
    """
    arguments = ["template", RELEASE, str(chart), "--namespace", namespace, "--skip-crds"]
    return _helm(*arguments, _KUBERNETES, "--values", "-", given=json.dumps(values or {}))


def lint(chart: Path) -> str:
    """What Helm has to say about the chart. Raises ChartRefusedError when it is wrong."""
    return _helm("lint", str(chart), "--strict", _KUBERNETES)


def install_files(chart: Path) -> Mapping[str, str]:
    """The manifests for those without Helm, by the name of their file."""
    version = str(yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))["appVersion"])
    crds = "---\n".join(path.read_text("utf-8") for path in sorted((chart / "crds").iterdir()))
    operator = rendered(chart, _WITHOUT_HELM).removeprefix("---\n")
    parts = {
        "crds.yaml": (", resource definitions only", crds),
        "operator.yaml": (", without the resource definitions", operator),
        "install.yaml": ("", f"{crds}---\n{operator}"),
    }
    return {
        name: _HEADER.format(version=version, what=what, name=name) + content
        for name, (what, content) in parts.items()
    }


def _helm(*arguments: str, given: str = "") -> str:
    program = helm_program()
    if program is None:
        raise FileNotFoundError("helm: python -m e2e.build tools")
    done = subprocess.run(
        [str(program), *arguments], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ChartRefusedError((done.stderr or done.stdout).strip())
    return done.stdout


def main() -> None:
    chart, release = map(Path, sys.argv[1:])
    release.mkdir(parents=True, exist_ok=True)
    for name, content in install_files(chart).items():
        (release / name).write_text(content, "utf-8")
    shutil.copy(release / COMMITTED, chart)


if __name__ == "__main__":
    main()
