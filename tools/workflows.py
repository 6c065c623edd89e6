"""Check the workflows of hosted CI: `python -m tools.workflows FOLDER`.

actionlint reads them as the hosting site does. And each step that runs something runs one make
target, so that nothing of CI is in a workflow alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.build.versions import tools_folder

_TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
_VALUE = r"(?:\$\{\{ [a-z.]+ \}\}|[^\s;&|]+)"
_STEP = re.compile(rf"make (?P<target>[a-z][a-z0-9-]*)(?: [A-Z]+={_VALUE})*")


def wrong_steps(folder: Path, makefile: str) -> list[str]:
    """Steps that are not one make target which is there, each with the name of its file."""
    targets = set(_TARGET.findall(makefile))
    found = []
    for path in sorted(folder.glob("*.y*ml")):
        for command in _commands(path):
            step = _STEP.fullmatch(command.strip())
            if step is None or step["target"] not in targets:
                found.append(f"{path.name}: {command}")
    return found


def _commands(path: Path) -> Iterator[str]:
    for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                yield str(step["run"])


def main() -> None:
    folder = Path(sys.argv[1])
    wrong = wrong_steps(folder, Path("Makefile").read_text("utf-8"))
    for line in wrong:
        print(f"no make target: {line}")
    files = [str(path) for path in sorted(folder.glob("*.y*ml"))]
    done = subprocess.run([str(tools_folder() / "actionlint"), "-no-color", *files])
    sys.exit(1 if wrong else done.returncode)


if __name__ == "__main__":
    main()
