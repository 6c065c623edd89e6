"""What people install: everything that the product needs, nothing that only its tests need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.distribution import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "engine" / "tideline", ROOT / "operator" / "tideline_operator")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)),
        ],
        check=True,
    )
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; what it depends on is this environment's."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"),
            *("--quiet", "--no-index", "--no-deps", str(wheel)),
        ],
        check=True,
    )
    return folder


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Runs a program of the environment in an empty folder."""
    variables = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(environment / "bin" / command[0]), *command[1:]],
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
        )

    return run


def test_a_wheel_has_every_file_of_the_product_and_none_of_its_tests(wheel: Path) -> None:
    installed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(source.parent).as_posix()
        for source in SOURCES
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    of_tests = {name for name in wanted if name.split("/")[1] == "testing"}
    assert of_tests
    assert installed == wanted - of_tests


def test_an_installed_wheel_keeps_a_table_from_an_empty_folder(
    run: Run, environment: Path, tmp_path: Path
) -> None:
    where = "import tideline; print(tideline.__file__, tideline.__version__)"
    place, _, version = run("python", "-c", where).stdout.strip().partition(" ")
    assert Path(place).is_relative_to(environment)
    assert run("tideline", "--version").stdout == f"tideline, version {version}\n"
    pq.write_table(
        pa.table({"id": ["1"], "day": ["2024-05-01"], "at": [1]}), tmp_path / "o.parquet"
    )
    created = run("tideline", "create", "t", "--record-key", "id", "--ordering", "at")
    written = run("tideline", "write", "t", "--source", "../o.parquet")
    read = run("tideline", "read", "t", "--json")
    for done in (created, written, read):
        assert done.returncode == 0, done.stderr
    (row,) = json.loads(read.stdout)["rows"]
    assert (row["id"], row["day"], row["at"]) == ("1", "2024-05-01", 1)


def test_an_installed_wheel_has_the_other_programs(run: Run) -> None:
    assert "Usage" in run("kubectl-tideline", "--help").stdout
    assert run("tideline", "run", "--help").returncode == 0


def test_a_wheel_goes_by_its_own_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        assert f"\nName: {DISTRIBUTION}\n" in files.read(metadata).decode()
