"""The packages of the operator's image, made of those that are installed here: the same releases.

They are what its Dockerfile leaves: those of its lock file, without the files that
`images/operator/unused-files.txt` names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.distribution import DISTRIBUTION
from tideline.testing.peer_environment import only_builder

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "images" / "operator" / "requirements.lock"
UNUSED_PACKAGES = ROOT / "images" / "operator" / "unused-packages.txt"
UNUSED_FILES = ROOT / "images" / "operator" / "unused-files.txt"
_SLIM = ROOT / "images" / "slim.sh"
_PINNED = re.compile(r"^([a-z0-9._-]+)==", re.MULTILINE)


def image_packages() -> Path:
    """The folder to import them from, without Tideline's own, filled if need be."""
    here = sysconfig.get_path("purelib")
    inputs = (LOCK, UNUSED_FILES, _SLIM, Path(__file__))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs) + here.encode())
    folder = cache_directory() / "libraries" / f"operator-{digest.hexdigest()[:16]}"
    with only_builder("library-operator"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _fill(Path(scratch)).rename(folder)
    return folder


def run_isolated(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run Python that imports from these folders and the standard library alone."""
    prepared = f"import sys; sys.path[:0] = {[str(path) for path in paths]!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", prepared], capture_output=True, text=True, check=False
    )


def _fill(folder: Path) -> Path:
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name in _PINNED.findall(LOCK.read_text("utf-8")):
        _copy(name, packages)
    # Its version and its programs; its code is the checkout's.
    _copy(DISTRIBUTION, packages, only=".dist-info")
    (folder / "bin").mkdir()
    subprocess.run(["sh", str(_SLIM), str(folder), str(UNUSED_FILES)], check=True)
    return packages


def _copy(name: str, packages: Path, only: str = "") -> None:
    found = distribution(name)
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts or only not in file.parts[0] or not source.is_file():
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
