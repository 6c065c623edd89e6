"""The images of the tests, built from the project's Dockerfiles and kept as archives.

An image is built again only when something it is made of changed: its Dockerfile and folder, the
sources it copies, the locked packages, the base. Beside each archive lies a note of all that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.build import debian_packages
from e2e.build.base_image import build_base
from e2e.build.buildah import Buildah
from e2e.build.go_tools import build_pause
from e2e.build.image_archive import write_image_archive
from e2e.build.versions import images_folder
from e2e.node.cluster import image_archive
from e2e.node.configuration import PAUSE_IMAGE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its Dockerfile, and what of the repository it is made of."""

    name: str
    dockerfile: Path
    inputs: tuple[Path, ...]
    volumes: Mapping[Path, str] = field(default_factory=dict)


def build_pause_image() -> None:
    """An image of one static program; it needs no builder."""
    archive = image_archive(PAUSE_IMAGE)
    program = build_pause()
    if not archive.exists() or archive.stat().st_mtime < program.stat().st_mtime:
        archive.parent.mkdir(parents=True, exist_ok=True)
        write_image_archive(PAUSE_IMAGE, program, archive)


def build_images() -> None:
    """The project's images."""
    debian_packages.install(debian_packages.IMAGE_PACKAGES)
    images_folder().mkdir(parents=True, exist_ok=True)
    buildah = Buildah()
    build_base(buildah)
