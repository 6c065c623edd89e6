"""The images as archives, and the digests that they have in every registry.

A registry stores compressed layers, and an archive has them as they are: crane compresses them the
same way each time, so that the digest is certain before anything is pushed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.build.images import build_for_release, build_program_for_release
from tools.release.programs import run_program
from tools.release.release import IMAGES, Release, ReleaseError


@dataclass(frozen=True, slots=True)
class ImageDigests:
    """What an image is called in a registry, whatever its tags say later."""

    release: Release
    by_image: Mapping[str, str]

    def reference(self, image: str) -> str:
        """Repository and digest."""
        return f"{self.release.repository(image)}@{self.by_image[image]}"


def build_image_archives(release: Release, source: Path) -> None:
    """Build those whose archive is not there."""
    for image in IMAGES:
        archive = release.image_archive(image)
        if archive.exists():
            continue
        name = f"{release.repository(image)}:{release.version}"
        if image == "minio":
            build_program_for_release(name, archive, _labels(release))
        else:
            dockerfile = source / "images" / image / "Dockerfile"
            build_for_release(name, dockerfile, source, archive, _labels(release), release.epoch_s)


def digests_of_archives(release: Release) -> ImageDigests:
    """Raises ReleaseError for an archive that is missing."""
    missing = [name for name in IMAGES if not release.image_archive(name).exists()]
    if missing:
        raise ReleaseError(f"no archive of {', '.join(missing)} in {release.folder.name}")
    found = {
        name: run_program("crane", "digest", f"--tarball={release.image_archive(name)}").strip()
        for name in IMAGES
    }
    return ImageDigests(release, found)


def _labels(release: Release) -> dict[str, str]:
    """Source: the OCI image specification's pre-defined annotation keys."""
    return {
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.revision": release.commit,
    }
