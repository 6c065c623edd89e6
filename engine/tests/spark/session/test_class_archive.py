"""The archive of Spark's classes: whose it is, who uses it, and that a misfit is ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.spark.session.class_archive import archive_options, archive_places, find_archive
from tideline.spark.session.spark_session import spark_configuration

START = (
    "from tideline.spark.session.spark_session import spark_session\n"
    "print(spark_session('x', master='local[1]').range(7).count())"
)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this environment's archive is looked for first; nothing is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "pyspark" / "__init__.py"))
    (tmp_path / "pyspark").mkdir()
    beside, cached = archive_places()
    assert beside.name == cached.name
    return beside


def test_sessions_use_the_archive_where_there_is_one(cached: Path) -> None:
    assert (find_archive(), archive_options()) == (None, "")
    assert "SharedArchiveFile" not in spark_configuration("local")["spark.driver.extraJavaOptions"]
    cached.touch()
    assert find_archive() == cached
    options = spark_configuration("local")["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile={cached}" in options
    assert "-Dlog4j2.configurationFile=" in options


def test_another_java_has_an_archive_of_its_own(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached.touch()
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('JAVA_VERSION="21.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(java))
    assert archive_places()[0] != cached
    assert find_archive() is None


@pytest.mark.spark
@pytest.mark.slow
def test_java_does_without_an_archive_that_is_none(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    script = (
        "import pyspark, pathlib\n"
        "from tideline.spark.session import class_archive\n"
        f"broken = pathlib.Path({str(tmp_path / 'broken.jsa')!r})\n"
        "broken.write_bytes(b'no archive' * 1000)\n"
        "class_archive.archive_places = lambda: (broken, broken)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script + START],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert ended.stdout.split() == ["7"]
    assert "archive" not in ended.stderr
