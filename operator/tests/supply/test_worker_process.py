"""The worker of `tideline run` loads no code from the folder where the command was started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tideline.testing.patience import PATIENCE_S
from tideline_operator.launch.local_process import LocalProcessLauncher
from tideline_operator.launch.worker_job import WORKER_COMMAND


def test_a_module_in_the_current_folder_is_not_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("yaml", "click", "tideline", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("import pathlib\npathlib.Path('loaded').touch()\n")
    monkeypatch.chdir(tmp_path)
    launcher = LocalProcessLauncher(tmp_path / "worker.log", ())
    process = launcher._spawn()
    try:
        assert process.stdin is not None
        process.stdin.close()
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() == 0
    finally:
        process.kill()
    assert not (tmp_path / "loaded").exists()


def test_a_warm_worker_is_started_without_its_current_folder() -> None:
    assert WORKER_COMMAND[:3] == ("python", "-P", "-m")
