"""The base of our images where no image registry is reachable: Debian by debootstrap.

It replaces `python:3.11-slim-bookworm`: the same release of Debian, the same Python under the same
names, and only apt's essential packages. They come from the sources of this machine's apt.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from e2e.build.buildah import Buildah
from e2e.build.versions import DEBIAN, images_folder

BASE_IMAGE = f"localhost/tideline-base:{DEBIAN}"

_INCLUDED = ("ca-certificates", "python3", "python3-venv")
_PYTHON = "python3.11"
_DPKG_SLIM = """\
path-exclude /usr/share/doc/*
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
path-include /usr/share/doc/*/copyright
"""


def build_base(buildah: Buildah) -> str:
    """The name of the base image, which is in buildah's storage afterwards."""
    archive = images_folder() / f"base-{DEBIAN}.tar"
    if not archive.exists():
        _bootstrap(archive)
    if not buildah.has(BASE_IMAGE):
        with tempfile.TemporaryDirectory(dir=images_folder()) as folder:
            # A link, so that the archive is not copied into another context.
            (Path(folder) / "base.tar").hardlink_to(archive)
            (Path(folder) / "Dockerfile").write_text(
                'FROM scratch\nADD base.tar /\nENV LANG=C.UTF-8\nCMD ["python3"]\n'
            )
            buildah.build(BASE_IMAGE, Path(folder) / "Dockerfile", Path(folder))
    return BASE_IMAGE


def _bootstrap(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=images_folder(), prefix="base-") as folder:
        root = Path(folder) / "root"
        # debootstrap mounts in its target; the mount ends with the namespace.
        subprocess.run(
            ["unshare", "--mount", "debootstrap", "--variant=minbase",
             f"--include={','.join(_INCLUDED)}", DEBIAN, str(root), *_mirror()],
            check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _slim(root)
        tarred = Path(folder) / "base.tar"
        subprocess.run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(tarred), "."],
                       check=True)  # fmt: skip
        tarred.replace(archive)


def _slim(root: Path) -> None:
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(_DPKG_SLIM)
    for name in ("python", "python3", _PYTHON):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{_PYTHON}")
    for pattern in ("var/cache/apt/archives/*.deb", "var/cache/apt/*.bin", "var/lib/apt/lists/*_*"):
        for path in root.glob(pattern):
            path.unlink()
    for folder in ("usr/share/man", "usr/share/locale"):
        for path in sorted((root / folder).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def _mirror() -> list[str]:
    """The mirror of this machine's apt; nothing where apt names none, since debootstrap knows
    Debian's own."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)",
         "Created-By: Packages"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    rows = (line.split() for line in listing.splitlines())
    return [row[0] for row in rows if row[1:] == [DEBIAN, "main"]][:1]
