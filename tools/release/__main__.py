"""Make the files of a release, or push them.

    python -m tools.release build 0.2.0 --registry registry.example/tideline
    python -m tools.release publish 0.2.0 --registry registry.example/tideline

and in hosted CI `login` before, `page` after that.

`build` takes HEAD or another `--revision`, writes to out/release/VERSION, and signs with
COSIGN_KEY. It contacts no registry. `publish` pushes these files; credentials of the registry come
from Docker's configuration.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.release.chart import pack_chart, write_chart
from tools.release.image_archives import build_image_archives, digests_of_archives
from tools.release.manifests import pack_example, write_install_files
from tools.release.notes import section
from tools.release.olm_bundle import pack_bundle
from tools.release.publication import log_in, publish, write_page
from tools.release.python_packages import build_python_packages
from tools.release.release import Release, ReleaseError
from tools.release.signing import Signer
from tools.release.source_tree import commit_of, export_source
from tools.release.statements import (
    write_bills_of_materials,
    write_checksums,
    write_provenance,
)

ROOT = Path(__file__).resolve().parents[2]


def build(release: Release, signer: Signer, builder: str) -> None:
    """Every file of the release, in its folder. Archives of images that are there are kept."""
    release.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        source = Path(scratch) / "source"
        source.mkdir()
        export_source(ROOT, release.commit, release.version, source)
        build_image_archives(release, source)
        for path in release.folder.iterdir():
            if path.suffix != ".tar":
                path.unlink()
        packages = build_python_packages(release, source)
        digests = digests_of_archives(release)
        chart = write_chart(source, digests, Path(scratch))
        pack_chart(release, chart)
        write_install_files(release, chart)
        pack_example(source, digests)
        pack_bundle(source, chart, digests)
        changelog = (source / "CHANGELOG.md").read_text("utf-8")
        notes = section(changelog, release.version)
        (release.folder / "RELEASE_NOTES.md").write_text(notes + "\n", "utf-8")
        write_bills_of_materials(release, packages, source)
        write_provenance(digests, source, builder)
    write_checksums(release)
    signer.sign_checksums(release)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("build", "publish", "login", "page"))
    parser.add_argument("version")
    parser.add_argument("--registry", required=True, help="host and path of the images")
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "release")
    parser.add_argument("--builder", default="https://tideline.dev/build/by-hand")
    given = parser.parse_args()
    try:
        commit, epoch_s = commit_of(ROOT, given.revision)
        folder = given.out / given.version
        release = Release(given.version, commit, epoch_s, given.registry, folder)
        match given.verb:
            case "build":
                build(release, Signer.of_environment(), given.builder)
                print(f"{release.version} of {commit[:12]} is in {folder}")
            case "publish":
                print("\n".join(publish(release, Signer.of_environment())))
            case "login":
                log_in(release)
            case _:
                write_page(release)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
