"""Build the site of the docs: `python -m tools.site MKDOCS out/site`.

Each version is a folder of its own beside the others that are there; versions.json, which the menu
of the pages reads, lists them, and the first page leads to the newest. A warning of mkdocs is an
error: a link that leads nowhere, a page that is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.release.source_tree import version_of
from tools.site.stage import ROOT, stage

_CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
_FIRST_PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>Tideline</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Tideline {version}</a></html>
"""


def build(mkdocs: Path, folder: Path, version: str) -> Path:
    """The folder of the version. Raises CalledProcessError when mkdocs finds something wrong."""
    stage(ROOT, folder / "source")
    html = folder / "html"
    target = html / version
    # Not --quiet: that lets warnings pass.
    subprocess.run(
        [str(mkdocs), "build", "--strict", "-f", str(_CONFIGURATION), "-d", str(target.resolve())],
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    versions = sorted((path.parent.name for path in html.glob("*/index.html")), key=version_order)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == versions[-1] else []}
        for name in reversed(versions)
    ]
    (html / "versions.json").write_text(json.dumps(listed, indent=1), "utf-8")
    (html / "index.html").write_text(_FIRST_PAGE.format(version=versions[-1]), "utf-8")
    return target


def version_order(version: str) -> tuple[object, ...]:
    """By which versions are sorted: numbers, and one with a pre-release before the one without."""
    release, _, pre = version.partition("-")
    return (*(int(part) for part in release.split(".")), not pre, pre)


def main() -> None:
    mkdocs, folder = map(Path, sys.argv[1:])
    try:
        target = build(mkdocs, folder, version_of(ROOT))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    print(f"{target / 'index.html'}")


if __name__ == "__main__":
    main()
