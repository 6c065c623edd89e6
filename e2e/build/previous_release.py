"""What users upgrade from: the images and manifests of an earlier commit of this repository.

Its source comes from the history, and is built like today's. A clone without that commit (a shallow
one, an archive of the source) cannot build it, and reports that.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.build.images import ROOT, build_from
from e2e.build.source_tree import export_commit
from e2e.build.versions import PREVIOUS_COMMIT, images_folder


@dataclass(frozen=True, slots=True)
class PreviousRelease:
    """An earlier operator and engine. `images` are by the last part of their name in `install`."""

    commit: str
    install: Path
    images: Mapping[str, str]


def build_previous_release() -> PreviousRelease:
    """Build what is missing. Raises CommitMissingError."""
    source = _source()
    images = {f"tideline-{name}": f"localhost/tideline-{name}:previous"
              for name in ("operator", "engine")}  # fmt: skip
    dockerfiles = {
        image: source / "images" / name.removeprefix("tideline-") / "Dockerfile"
        for name, image in images.items()
    }
    build_from(source, dockerfiles)
    install = source / "charts" / "tideline" / "install.yaml"
    return PreviousRelease(PREVIOUS_COMMIT, install, images)


def _source() -> Path:
    """The tree of the commit, in the cache."""
    target = images_folder() / f"source-{PREVIOUS_COMMIT[:12]}"
    if target.exists():
        return target
    images_folder().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=images_folder(), prefix="source-"))
    try:
        export_commit(ROOT, PREVIOUS_COMMIT, folder)
        folder.chmod(0o755)
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target
