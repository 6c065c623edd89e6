"""An image of one static program, written as an archive that container runtimes load."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image_archive(image: str, program: Path, archive: Path) -> None:
    """Write an image whose entry point, and only file, is `program`, without its version."""
    name = program.name.partition("-")[0]
    layer = _tar({name: program.read_bytes()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": [f"/{name}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    content = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
    }
    written = archive.with_suffix(".part")
    written.write_bytes(_tar(content, mode=0o644))
    written.replace(archive)


def _tar(content: dict[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
