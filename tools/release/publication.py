"""A release that was built goes into its registry.

1. The files are those that were signed: checksums first.
2. A tag of this version that names something else is another release: nothing is pushed.
3. Images by their archives; the digest that the registry has is the one in the chart.
4. Images are signed, and get their bill of materials and their provenance; then the chart.

The chart is last: a reader that finds it finds its images. Died in between: the same command does
the rest.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tools.release.image_archives import ImageDigests, digests_of_archives
from tools.release.programs import run_program
from tools.release.release import IMAGES, Release, ReleaseError
from tools.release.signing import Signer, write_predicate
from tools.release.statements import CHECKSUMS, bill_of_materials


def publish(release: Release, signer: Signer) -> list[str]:
    """Push everything; the references of images and chart, by digest. Raises ReleaseError."""
    check_files(release)
    digests = digests_of_archives(release)
    _refuse_other_release(digests)
    with tempfile.TemporaryDirectory() as folder:
        predicate = write_predicate(release, Path(folder) / "predicate.json")
        references = [_publish_image(digests, image, signer, predicate) for image in IMAGES]
    references.append(_publish_chart(release, signer))
    return references


def log_in(release: Release) -> None:
    """Store REGISTRY_USER and REGISTRY_PASSWORD of the environment where Docker has credentials."""
    user, password = (os.environ.get(f"REGISTRY_{name}") for name in ("USER", "PASSWORD"))
    if not user or not password:
        raise ReleaseError("set REGISTRY_USER and REGISTRY_PASSWORD")
    host = release.registry.partition("/")[0]
    run_program("crane", "auth", "login", host, "-u", user, "--password-stdin", given=password)


def write_page(release: Release) -> None:
    """The tag's release on the hosting site, with all files but the images, by its program gh."""
    files = [str(path) for path in sorted(release.folder.iterdir()) if path.suffix != ".tar"]
    notes = str(release.folder / "RELEASE_NOTES.md")
    tag = f"v{release.version}"
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "-F", notes, *files]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"gh release create: {done.stderr.strip()}")


def check_files(release: Release) -> None:
    """Raise ReleaseError for a file that is not as its checksum says, or missing."""
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", CHECKSUMS],
        cwd=release.folder,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ReleaseError(f"the files are not those of {CHECKSUMS}: {done.stdout.strip()}")


def _refuse_other_release(digests: ImageDigests) -> None:
    for image in IMAGES:
        tag = f"{digests.release.repository(image)}:{digests.release.version}"
        there = _digest(tag)
        if there is not None and there != digests.by_image[image]:
            raise ReleaseError(
                f"{tag} is there already and is {there}, not {digests.by_image[image]}:"
                " a version is released once, take the next one"
            )


def _publish_image(digests: ImageDigests, image: str, signer: Signer, predicate: Path) -> str:
    release, reference = digests.release, digests.reference(image)
    tag = f"{release.repository(image)}:{release.version}"
    archive = release.image_archive(image)
    there = _digest(tag)
    if there is None:
        run_program("crane", "push", str(archive), tag)
        there = _digest(tag)
    if there != digests.by_image[image]:
        raise ReleaseError(f"the registry has {there} as {tag}, not {reference}")
    signer.sign(release, reference)
    signer.attest(release, reference, "cyclonedx", bill_of_materials(archive))
    signer.attest(release, reference, "slsaprovenance1", predicate)
    return reference


def _publish_chart(release: Release, signer: Signer) -> str:
    tag = f"{release.registry}/charts/tideline:{release.version}"
    if _digest(tag) is None:
        plain = ("--plain-http",) if release.is_local else ()
        run_program("helm", "push", str(release.chart_archive), release.charts, *plain)
    reference = f"{release.registry}/charts/tideline@{_digest(tag)}"
    signer.sign(release, reference)
    return reference


def _digest(reference: str) -> str | None:
    """What a tag names in the registry; None where there is no such tag."""
    try:
        return run_program("crane", "digest", reference).strip()
    except ReleaseError as error:
        if any(word in str(error) for word in ("MANIFEST_UNKNOWN", "NAME_UNKNOWN", "404")):
            return None
        raise
