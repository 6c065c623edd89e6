"""What those without Helm apply: install.yaml and its parts, and the example with its images.

The example is a folder for `kubectl apply -k`, packed: a namespace, a MinIO for trials, a table,
and the programs that land files for it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import yaml

from e2e.build.image_archive import tar_of
from tideline_operator.testing.helm_chart import install_files
from tools.release.image_archives import ImageDigests
from tools.release.release import Release, ReleaseError

_IMAGE = "tideline-minio"
_LANDING = Path("examples/flights/make_landing.py")


def write_install_files(release: Release, chart: Path) -> list[Path]:
    """install.yaml, crds.yaml and operator.yaml, rendered from the release's chart."""
    written = []
    for name, content in install_files(chart).items():
        path = release.folder / name
        path.write_text(content, "utf-8")
        written.append(path)
    return written


def pack_example(source: Path, digests: ImageDigests) -> Path:
    """The archive of the example, whose folder is named like it."""
    release = digests.release
    name = f"tideline-example-{release.version}"
    files = {
        path.name: path.read_bytes()
        for path in sorted((source / "examples/kubernetes").iterdir())
        if path.is_file() and path.suffix != ".env"
    }
    files["make_landing.py"] = (source / _LANDING).read_bytes()
    files["kustomization.yaml"] = _with_image(files["kustomization.yaml"], digests)
    target = release.folder / f"{name}.tar.gz"
    write_archive(target, {f"{name}/{file}": data for file, data in files.items()}, release.epoch_s)
    return target


def write_archive(target: Path, files: dict[str, bytes], epoch_s: int) -> None:
    """A compressed tar archive; the same bytes for the same files, in their order."""
    target.write_bytes(gzip.compress(tar_of(files, mode=0o644, epoch_s=epoch_s), mtime=epoch_s))


def _with_image(kustomization: bytes, digests: ImageDigests) -> bytes:
    text = kustomization.decode()
    if "images" in yaml.safe_load(text):
        raise ReleaseError("kustomization.yaml of the example names images already")
    digest = digests.by_image["minio"]
    images = [{"name": _IMAGE, "newName": digests.release.repository("minio"), "digest": digest}]
    kept = text.partition("# Where your images are")[0]
    return (kept + yaml.safe_dump({"images": images}, sort_keys=False)).encode()
