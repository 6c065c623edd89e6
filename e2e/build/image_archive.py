"""Images as archives that container runtimes load: of one static program, and of a builder, without
what differs from build to build."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_RUN_FIELDS = (
    "User",
    "Env",
    "Entrypoint",
    "Cmd",
    "WorkingDir",
    "ExposedPorts",
    "Volumes",
    "Labels",
)
"""Of an image's configuration, what says how its containers run."""
_STEP_FIELDS = ("created", "created_by", "empty_layer")


def write_image_archive(
    image: str, program: Path, archive: Path, labels: Mapping[str, str] | None = None
) -> None:
    """Write an image whose entry point, and only file, is `program`, without its version."""
    name = program.name.partition("-")[0]
    layer = tar_of({name: program.read_bytes()}, mode=0o755)
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": [f"/{name}"], "User": "65535:65535", "Labels": dict(labels or {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    content = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
    }
    written = archive.with_suffix(".part")
    written.write_bytes(tar_of(content, mode=0o644))
    written.replace(archive)


def write_reproducible_archive(
    saved: Path, image: str, archive: Path, labels: Mapping[str, str]
) -> None:
    """The image of an archive, under another name and with more labels: layers as they are, and of
    its configuration what containers get, without the names of the builder's containers."""
    with tarfile.open(saved) as read:
        (entry,) = _json_member(read, "manifest.json")
        config = _plain_config(_json_member(read, entry["Config"]), labels)
        manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": entry["Layers"]}]
        written = archive.with_suffix(".part")
        with tarfile.open(written, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, value in (("manifest.json", manifest), ("config.json", config)):
                data = json.dumps(value, sort_keys=True).encode()
                tar.addfile(_entry(name, len(data), 0o644), io.BytesIO(data))
            for layer in dict.fromkeys(entry["Layers"]):
                member = read.getmember(layer)
                tar.addfile(_entry(layer, member.size, 0o644), read.extractfile(member))
    written.replace(archive)


def tar_of(content: Mapping[str, bytes], *, mode: int, epoch_s: int = 0) -> bytes:
    """A tar archive of files, in their order, all with one mode and one time; the same bytes for
    the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in content.items():
            tar.addfile(_entry(name, len(data), mode, epoch_s), io.BytesIO(data))
    return buffer.getvalue()


def architecture() -> str:
    """The platform of images that are built here, as container registries call it."""
    return _ARCHITECTURES[platform.machine()]


def _plain_config(config: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    run = {name: value for name, value in config["config"].items() if name in _RUN_FIELDS and value}
    given = {name: text for name, text in run.get("Labels", {}).items() if "buildah" not in name}
    return {
        **{name: config[name] for name in ("created", "architecture", "os", "rootfs")},
        "config": {**run, "Labels": {**given, **labels}},
        "history": [
            {name: step[name] for name in _STEP_FIELDS if name in step}
            for step in config["history"]
        ],
    }


def _json_member(tar: tarfile.TarFile, name: str) -> Any:
    read = tar.extractfile(name)
    assert read is not None, name
    return json.load(read)


def _entry(name: str, size: int, mode: int, epoch_s: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, epoch_s
    return entry
