"""No program of ours loads a module from the folder where it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

NAMES = ("yaml", "pyarrow", "click", "json", "tideline", "numpy", "pandas", "rich", "pyspark")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules that say that they were loaded."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(
            f"import os\nopen({str(tmp_path / 'loaded')!r}, 'a').write('{name} ')\n"
        )
    return tmp_path


def loaded(folder: Path) -> str:
    file = folder / "loaded"
    return file.read_text() if file.exists() else ""


def started(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_modules_would_be_loaded(folder: Path) -> None:
    started([sys.executable, "-m", "tideline.cli.worker"], folder)
    assert "tideline" in loaded(folder)


@pytest.mark.parametrize("name", ["tideline", "tideline-operator", "kubectl-tideline"])
def test_the_commands_load_none(folder: Path, name: str) -> None:
    program = Path(sys.executable).parent / name
    assert started([str(program), "--help"], folder).returncode == 0
    assert loaded(folder) == ""


@pytest.mark.parametrize("module", ["tideline.cli.main", "tideline.cli.warm_worker"])
def test_in_an_image_no_way_to_start_python_loads_one(folder: Path, module: str) -> None:
    started([sys.executable, "-m", module], folder, {"PYTHONSAFEPATH": "1"})
    assert loaded(folder) == ""


@pytest.mark.slow
@pytest.mark.spark
def test_workers_of_spark_load_none(folder: Path) -> None:
    program = (
        "from tideline.spark.session.spark_session import spark_session\n"
        "s = spark_session('t')\n"
        "print(s.sparkContext.parallelize([1, 2]).map(lambda n: n + 1).sum())\n"
    )
    done = started([sys.executable, "-P", "-c", program], folder)
    assert done.stdout.strip() == "5", done.stderr
    assert loaded(folder) == ""
