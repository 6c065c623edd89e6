"""The images of the tests, built from the project's Dockerfiles and kept as archives.

An image is rebuilt only when one of its inputs changed: its Dockerfile, the files that it copies,
or the base. A file next to each archive records them.

Without an image registry the base is Debian by debootstrap, and this machine provides what a
Dockerfile would fetch elsewhere: pip's settings and trusted authorities, and the connectors of
Spark. Where Docker is running, Docker builds, and kind takes the images from it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.build import debian_packages
from e2e.build.base_image import BASE_IMAGE, build_base
from e2e.build.buildah import Buildah
from e2e.build.go_tools import build_pause
from e2e.build.image_archive import write_image_archive, write_reproducible_archive
from e2e.build.versions import images_folder
from e2e.node.cluster import image_archive
from e2e.node.configuration import PAUSE_IMAGE
from tideline.cache_directory import cache_directory
from tideline.spark.session.connector_jars import install_jars
from tideline.spark.session.connectors import CONNECTORS
from tideline.testing import minio_server

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = {
    f"localhost/tideline-{name}:dev": ROOT / "images" / name / "Dockerfile"
    for name in ("operator", "engine", "minio")
}
MINIO_IMAGE = "localhost/tideline-minio:dev"
"""Its Dockerfile compiles for minutes; without Docker the program that other tests use, compiled
from the same module, is put into an image as it is."""

_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "find-links")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_HOME_INSIDE = "/root"
_INSIDE = "/etc/tideline-build"


def build_pause_image() -> None:
    """An image of one static program; it needs no builder."""
    _build_program_image(PAUSE_IMAGE, build_pause())


def build_images() -> None:
    """The project's images, with Docker where it runs, otherwise with buildah."""
    if not docker_runs():
        _build_program_image(MINIO_IMAGE, minio_server.build())
    build_from(ROOT, DOCKERFILES)


def build_from(source: Path, dockerfiles: Mapping[str, Path]) -> None:
    """Images, by name, of the Dockerfiles of a source tree."""
    if docker_runs():
        for image, dockerfile in dockerfiles.items():
            options = ["--quiet", "-t", image, "-f", str(dockerfile)]
            subprocess.run(["docker", "build", *options, str(source)], check=True)
        return
    buildah = _builder()
    outdated = {
        image: path
        for image, path in dockerfiles.items()
        if image != MINIO_IMAGE and not _is_current(image, path, source)
    }
    if not outdated:
        return
    build_base(buildah)
    for image, dockerfile in outdated.items():
        _build(buildah, image, dockerfile, source)
    buildah.prune()


def build_for_release(
    image: str,
    dockerfile: Path,
    source: Path,
    archive: Path,
    labels: Mapping[str, str],
    epoch_s: int,
) -> None:
    """An image whose every file has one time, made from nothing but its inputs and the base.

    The archive is of the kind `docker load` takes. The same inputs give the same bytes.
    """
    buildah = _builder()
    build_base(buildah)
    with tempfile.TemporaryDirectory(dir=images_folder()) as folder:
        saved = Path(folder) / "saved.tar"
        built = f"localhost/{dockerfile.parent.name}:release"
        _build_archive(buildah, built, dockerfile, source, saved, epoch_s)
        write_reproducible_archive(saved, image, archive, labels)
    buildah.prune()


def build_program_for_release(image: str, archive: Path, labels: Mapping[str, str]) -> None:
    """The image of MinIO for trials: one static program, the same from the same version of it."""
    write_image_archive(image, minio_server.build(), archive, labels)


def docker_runs() -> bool:
    """Whether there is a Docker engine, and not just its client."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


def _build_program_image(image: str, program: Path) -> None:
    archive = image_archive(image)
    if not archive.exists() or archive.stat().st_mtime < program.stat().st_mtime:
        archive.parent.mkdir(parents=True, exist_ok=True)
        write_image_archive(image, program, archive)


def _builder() -> Buildah:
    """buildah, installed if need be."""
    debian_packages.install(debian_packages.IMAGE_PACKAGES)
    images_folder().mkdir(parents=True, exist_ok=True)
    return Buildah()


def _build_archive(
    buildah: Buildah,
    image: str,
    dockerfile: Path,
    source: Path,
    archive: Path,
    epoch_s: int | None = None,
) -> None:
    """An image on the base, and its archive; with `epoch_s` as `Buildah.build` has it."""
    arguments = {"BASE": BASE_IMAGE}
    if epoch_s is not None:
        arguments["SOURCE_DATE_EPOCH"] = str(epoch_s)
    with tempfile.TemporaryDirectory(dir=images_folder()) as folder:
        volumes = _volumes(Path(folder))
        buildah.build(
            image, dockerfile, source, arguments=arguments, volumes=volumes, epoch_s=epoch_s
        )
    buildah.save(image, archive)


def _build(buildah: Buildah, image: str, dockerfile: Path, source: Path) -> None:
    started_s = time.monotonic()
    digest = _digest(dockerfile, source)
    archive = image_archive(image)
    _build_archive(buildah, image, dockerfile, source, archive)
    _note(archive).write_text(digest)
    taken_s = time.monotonic() - started_s
    print(f"{image}: {archive.stat().st_size / 1e6:.0f} MB, {taken_s:.0f} s", flush=True)


def _is_current(image: str, dockerfile: Path, source: Path) -> bool:
    archive = image_archive(image)
    note = _note(archive)
    return archive.exists() and note.exists() and note.read_text() == _digest(dockerfile, source)


def _note(archive: Path) -> Path:
    return archive.with_suffix(".inputs")


def _digest(dockerfile: Path, source: Path) -> str:
    """A digest of everything that the image is made of, by name and content."""
    digest = hashlib.sha256(BASE_IMAGE.encode())
    for path in sorted({dockerfile, *_copied(dockerfile, source)}):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        mode = path.stat().st_mode & 0o777
        digest.update(f"{path.relative_to(source)} {mode:o} {content}\n".encode())
    return digest.hexdigest()


def _copied(dockerfile: Path, source: Path) -> Iterator[Path]:
    """The files that COPY takes out of the source tree."""
    for line in dockerfile.read_text("utf-8").replace("\\\n", " ").splitlines():
        instruction, *words = line.split() or [""]
        if instruction != "COPY" or any(word.startswith("--from") for word in words):
            continue
        for word in (word for word in words[:-1] if not word.startswith("--")):
            for path in source.glob(word.rstrip("/")):
                files = path.rglob("*") if path.is_dir() else [path]
                yield from (file for file in files if file.is_file() and _counts(file))


def _counts(path: Path) -> bool:
    return "__pycache__" not in path.parts


def _volumes(folder: Path) -> dict[Path, str]:
    """What of this machine the build sees: how pip gets its packages, and the connectors of
    Spark, which are installed first."""
    for connector in CONNECTORS.values():
        install_jars(connector)
    volumes = {cache_directory() / "jars": f"{_HOME_INSIDE}/.cache/tideline/jars"}
    lines = ["[global]"]
    for name, value in _pip_settings().items():
        local = Path(value)
        if name == "find-links" and local.is_dir():
            value = f"{_INSIDE}/wheels"
            volumes[local] = value
        lines.append(f"{name} = {value}")
    if _AUTHORITIES.exists():
        volumes[_AUTHORITIES] = f"{_INSIDE}/ca.crt"
        lines.append(f"cert = {_INSIDE}/ca.crt")
    settings = folder / "pip.conf"
    settings.write_text("\n".join(lines) + "\n")
    volumes[settings] = "/etc/pip.conf"
    return volumes


def _pip_settings() -> dict[str, str]:
    """Where this machine's pip gets packages, from its files and from the environment."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2]
        if option in _PIP_SETTINGS:
            found[option] = value.strip("'\"")
    return found
