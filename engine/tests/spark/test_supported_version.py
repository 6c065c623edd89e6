"""Another version of Spark is refused at once, in one sentence."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.spark import supported_version
from tideline.spark.supported_version import SPARK, refuse_other_versions


def test_the_version_that_is_installed_is_the_supported_one() -> None:
    assert version("pyspark").startswith(f"{SPARK}.")
    refuse_other_versions()


@pytest.mark.parametrize("other", ["3.5.8", "4.0.1", "4.30.0", "5.0.0.dev1"])
def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr(supported_version, "version", lambda _: other)
    with pytest.raises(ConfigError, match=f"Spark {other} is not supported: .* {SPARK}"):
        refuse_other_versions()


def test_the_command_line_says_so_in_one_sentence(tmp_path: Path) -> None:
    """A folder in front of the others has the metadata of an older PySpark."""
    metadata = tmp_path / "pyspark-3.5.8.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.8\n")
    code = "import sys; from tideline.cli.main import main; sys.exit(main(['install-jars']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "Spark 3.5.8 is not supported" in done.stderr
    assert "Traceback" not in done.stderr
