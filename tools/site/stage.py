"""Put the pages of the docs, and what they link to, where mkdocs makes a site of them.

    python -m tools.site.stage out/site/source

1. Pages are the Markdown files that git tracks, at the same places, so that their links hold.
2. A file that one links to comes along. A link to a folder becomes one to its README, or to a page
   that lists its files.
3. Links of lines, `file.py#L10`, lose the line: a site shows whole files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?P<open>\]\()(?P<target>[^()\s]+)(?P<close>\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_WITH_SITE = ("tools/site/site.css",)


def stage(root: Path, target: Path) -> None:
    """Write the pages of a repository, and all that they need, below `target`."""
    tracked = _tracked(root)
    pages = [path for path in tracked if path.suffix == ".md"]
    shutil.rmtree(target, ignore_errors=True)
    needed = {Path(name) for name in _WITH_SITE if Path(name) in tracked}
    for page in pages:
        text = (root / page).read_text("utf-8")
        needed |= set(_files(page, text, tracked))
        written = target / page
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(_for_site(page, text, tracked), "utf-8")
    for folder in {folder for page in pages for folder in _folders(root, page, tracked)}:
        files = sorted(path for path in tracked if path.parent == folder)
        needed |= {path for path in files if path.suffix != ".md"}
        listed = "".join(f"- [{path.name}]({path.name})\n" for path in files)
        index = target / folder / "README.md"
        if not index.exists():
            index.parent.mkdir(parents=True, exist_ok=True)
            index.write_text(f"# {folder}\n\n{listed}", "utf-8")
    for path in needed:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, target / path)


def _for_site(page: Path, text: str, tracked: frozenset[Path]) -> str:
    def changed(found: re.Match[str]) -> str:
        path, _, anchor = found["target"].partition("#")
        linked = _resolved(page, path)
        if linked is None or not path:
            return found[0]
        if linked in tracked:
            link = path if linked.suffix != ".md" or not anchor else f"{path}#{anchor}"
        elif any(linked in file.parents for file in tracked):
            link = f"{path.rstrip('/')}/README.md"
        else:
            link = found["target"]
        return f"{found['open']}{link}{found['close']}"

    parts = _FENCE.split(text)
    # Every second part is a block of code.
    return "".join(
        part if number % 2 else _LINK.sub(changed, part) for number, part in enumerate(parts)
    )


def _files(page: Path, text: str, tracked: frozenset[Path]) -> Iterator[Path]:
    for target in _targets(text):
        linked = _resolved(page, target)
        if linked in tracked and linked is not None and linked.suffix != ".md":
            yield linked


def _folders(root: Path, page: Path, tracked: frozenset[Path]) -> Iterator[Path]:
    for target in _targets((root / page).read_text("utf-8")):
        linked = _resolved(page, target)
        if linked is None or linked in tracked:
            continue
        if any(linked in file.parents for file in tracked):
            yield linked


def _targets(text: str) -> Iterator[str]:
    for part in _FENCE.split(text)[::2]:
        for found in _LINK.finditer(part):
            yield found["target"].partition("#")[0]


def _resolved(page: Path, target: str) -> Path | None:
    """The path in the repository that a link leads to; None for an address and an anchor alone."""
    if not target or re.match(r"[a-z]+:", target):
        return None
    path = Path(os.path.normpath(page.parent / target))
    return None if path.parts[:1] == ("..",) else path


def _tracked(root: Path) -> frozenset[Path]:
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout
    return frozenset(Path(name) for name in listed.split("\0") if name)


if __name__ == "__main__":
    stage(ROOT, Path(sys.argv[1]))
