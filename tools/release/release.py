"""What a release is: a version, a commit, the place of its images, and the folder of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from e2e.build.image_archive import architecture

IMAGES = ("operator", "engine", "minio")
"""By name: those of the product, and a MinIO for trials."""

_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")
_PLACE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d+)?(/[a-z0-9]+([._-][a-z0-9]+)*)*")


class ReleaseError(Exception):
    """A release that is not made; the message says what is wrong, and what to do."""


def require_version(text: str) -> None:
    """Raises ReleaseError where it is none."""
    if not _VERSION.fullmatch(text):
        raise ReleaseError(f"{text!r} is no version: give one such as 0.2.0")


@dataclass(frozen=True, slots=True)
class Release:
    """`registry` is a host with a port and a path, as in the names of images; times are in seconds
    since 1970."""

    version: str
    commit: str
    epoch_s: int
    registry: str
    folder: Path

    def __post_init__(self) -> None:
        require_version(self.version)
        if not _PLACE.fullmatch(self.registry):
            raise ReleaseError(
                f"{self.registry!r} is no place of images: give a registry such as"
                " registry.example/tideline"
            )

    @property
    def is_local(self) -> bool:
        """Whether the registry is on this machine, and spoken to without TLS."""
        host = self.registry.partition("/")[0].partition(":")[0]
        return host in ("127.0.0.1", "localhost")

    @property
    def chart_archive(self) -> Path:
        return self.folder / f"tideline-{self.version}.tgz"

    @property
    def charts(self) -> str:
        """Where charts are, for `helm push`."""
        return f"oci://{self.registry}/charts"

    def repository(self, image: str) -> str:
        """An image's name without tag and digest."""
        return f"{self.registry}/tideline-{image}"

    def image_archive(self, image: str) -> Path:
        return self.folder / f"tideline-{image}-{self.version}-{architecture()}.tar"
