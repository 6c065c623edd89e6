"""The archive of Spark's classes: whose it is, who uses it, and that a misfit is ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.spark.session.class_archive import (
    archive_options,
    archive_places,
    class_path,
    find_archive,
)
from tideline.spark.session.java_runtime import find_java
from tideline.spark.session.make_class_archive import make_archive
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


def test_the_class_path_is_the_same_in_every_file_system(cached: Path) -> None:
    (cached.parent / "jars").mkdir()
    jars = [cached.parent / "jars" / name for name in ("b.jar", "a.jar", "c.jar")]
    for jar in jars:
        jar.touch()
    assert "spark.driver.extraClassPath" not in spark_configuration("local")
    archive_places()[0].touch()
    given = spark_configuration("local")["spark.driver.extraClassPath"]
    assert given == ":".join(sorted(map(str, jars)))


def test_another_sparks_jars_are_left_as_they_are(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cached.parent / "jars").mkdir()
    (cached.parent / "jars" / "a.jar").touch()
    of_pyspark = archive_places()[0]
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert archive_places()[0] != of_pyspark
    archive_places()[0].touch()
    assert "spark.driver.extraClassPath" not in spark_configuration("local")


@pytest.mark.spark
@pytest.mark.slow
def test_java_uses_the_archive_also_with_jars_behind_those_of_spark(tmp_path: Path) -> None:
    """`-Xshare:on`: it refuses to start unless the archive fits."""
    archive = make_archive()
    path = f"{class_path()}:{tmp_path}/*"
    options = ["-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-cp"]
    java = str(find_java().executable)
    fits = subprocess.run([java, *options, path, "-version"], capture_output=True, check=False)
    assert fits.returncode == 0, fits.stderr
    first = f"{tmp_path}:{class_path()}"
    (tmp_path / "x").touch()
    misfits = subprocess.run([java, *options, first, "-version"], capture_output=True, check=False)
    assert misfits.returncode != 0


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
