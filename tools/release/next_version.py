"""Names the next version in a tree, everywhere where the last one is named.

1. The package, the chart, the example's images, and the commands of pages.
2. What CHANGELOG.md calls unreleased is the version's section, and nothing is unreleased.

Rendered manifests follow by `make install-yaml`.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from tools.release.release import ReleaseError, require_version
from tools.release.source_tree import version_of

_UNRELEASED = "## [Unreleased]\n"
_FILES = (
    "pyproject.toml",
    "charts/tideline/Chart.yaml",
    "README.md",
    "RELEASE.md",
    "docs/install.md",
    "docs/quickstart.md",
    "examples/kubernetes/history-server.yaml",
    "examples/kubernetes/kustomization.yaml",
    "examples/kubernetes/minio.yaml",
)
"""Each names its own version, and of others' none that is the same."""


def name_next_version(tree: Path, version: str, day: date) -> None:
    """Change the files. Raises ReleaseError where nothing is unreleased, changing none."""
    changelog = tree / "CHANGELOG.md"
    text = changelog.read_text("utf-8")
    before, heading, after = text.partition(_UNRELEASED)
    if not heading or not after.partition("\n## [")[0].strip():
        raise ReleaseError("CHANGELOG.md has nothing below [Unreleased]: what does a user get?")
    released = f"{_UNRELEASED}\n## [{version}] - {day.isoformat()}\n"
    last = re.compile(rf"(?<![\d.]){re.escape(version_of(tree))}(?![\d.]*\d)")
    for name in _FILES:
        path = tree / name
        path.write_text(last.sub(version, path.read_text("utf-8")), "utf-8")
    changelog.write_text(before + released + after, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version")
    version = parser.parse_args().version
    try:
        require_version(version)
        name_next_version(Path(), version, datetime.now(UTC).date())
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
