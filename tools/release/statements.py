"""What is said about the files of a release: bills of materials, provenance, checksums.

Sources: CycloneDX 1.6; in-toto Statement v1; SLSA Provenance v1.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from e2e.build.image_archive import architecture
from e2e.build.versions import DEBIAN, images_folder
from tools.release.image_archives import ImageDigests
from tools.release.programs import run_program
from tools.release.release import IMAGES, Release

CHECKSUMS = "SHA256SUMS"
PROVENANCE = "provenance.json"
_BUILD_TYPE = "https://tideline.dev/build/release/v1"
_LOCKS = (
    "requirements.lock",
    "requirements-build.lock",
    "images/engine/requirements.lock",
    "images/operator/requirements.lock",
)


def write_bills_of_materials(release: Release, packages: Iterable[Path], source: Path) -> None:
    """One for each image, and one for the wheel: of the lock file's packages, which it is tested
    with. Without serial numbers and the time of the scan."""
    for image in IMAGES:
        archive = release.image_archive(image)
        _write_bill_of_materials(release, archive, f"docker-archive:{archive}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(source / "requirements.lock", Path(folder) / "requirements.txt")
        for wheel in (path for path in packages if path.suffix == ".whl"):
            _write_bill_of_materials(release, wheel, f"dir:{folder}")


def bill_of_materials(of: Path) -> Path:
    """The file that says what another one is made of."""
    return of.with_name(f"{of.name}.cdx.json")


def write_provenance(digests: ImageDigests, source: Path, builder: str) -> Path:
    """How the files came to be, as a statement about each file and image; `builder` is a URI."""
    release = digests.release
    files = [
        {"name": path.name, "digest": {"sha256": sha256_of(path)}}
        for path in released_files(release)
        if path.name != PROVENANCE
    ]
    images = [
        {"name": release.repository(image), "digest": {"sha256": digest.removeprefix("sha256:")}}
        for image, digest in digests.by_image.items()
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": files + images,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": _predicate(release, source, builder),
    }
    target = release.folder / PROVENANCE
    target.write_text(_json(statement), "utf-8")
    return target


def write_checksums(release: Release) -> Path:
    """Of every file, as `sha256sum --check` reads them."""
    target = release.folder / CHECKSUMS
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in released_files(release)]
    target.write_text("".join(lines), "utf-8")
    return target


def released_files(release: Release) -> list[Path]:
    """All but the checksums and what is said about these."""
    return sorted(
        path
        for path in release.folder.iterdir()
        if path.is_file() and not path.name.startswith(CHECKSUMS) and path.name != "cosign.pub"
    )


def sha256_of(path: Path) -> str:
    """In hexadecimal digits."""
    with path.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _write_bill_of_materials(release: Release, path: Path, scanned: str) -> None:
    names = ("--source-name", path.name, "--source-version", release.version)
    told = json.loads(run_program("syft", "scan", scanned, "-q", "-o", "cyclonedx-json", *names))
    told.pop("serialNumber", None)
    told["metadata"].pop("timestamp", None)
    # It has the path of what was scanned in it.
    told["metadata"]["component"]["bom-ref"] = path.name
    bill_of_materials(path).write_text(_json(told), "utf-8")


def _predicate(release: Release, source: Path, builder: str) -> dict[str, Any]:
    base = images_folder() / f"base-{DEBIAN}.tar"
    locks = [{"uri": lock, "digest": {"sha256": sha256_of(source / lock)}} for lock in _LOCKS]
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {"version": release.version, "registry": release.registry},
            "internalParameters": {
                "platform": f"linux/{architecture()}",
                "sourceDateEpoch": release.epoch_s,
            },
            "resolvedDependencies": [
                {"uri": "git+https://tideline.dev/source", "digest": {"gitCommit": release.commit}},
                {"uri": base.name, "digest": {"sha256": sha256_of(base)}},
                *locks,
            ],
        },
        "runDetails": {"builder": {"id": builder}},
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
