"""What people install: everything that the product needs, nothing that only its tests need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "engine" / "tideline", ROOT / "operator" / "tideline_operator")


def test_a_wheel_has_every_file_of_the_product_and_none_of_its_tests(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)),
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
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
