"""Put the pages of the docs, and what they link to, where mkdocs makes a site of them.

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
from collections.abc import Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()[^()\s]+(?=\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_STYLE = Path("tools/site/site.css")


def stage(root: Path, target: Path) -> None:
    """Write the pages of a repository, and all that they need, below `target`."""
    files = _tracked(root)
    folders = frozenset(folder for path in files for folder in path.parents)
    shutil.rmtree(target, ignore_errors=True)
    linked: set[Path] = {_STYLE}
    for page in (path for path in files if path.suffix == ".md"):
        text = (root / page).read_text("utf-8")
        linked |= {path for path in map(partial(_resolved, page), _targets(text)) if path}
        _write(target / page, _for_site(page, text, files, folders))
    for folder in linked & folders:
        inside = sorted(path for path in files if path.parent == folder)
        linked |= set(inside)
        index = target / folder / "README.md"
        if not index.exists():
            listed = "".join(f"- [{path.name}]({path.name})\n" for path in inside)
            _write(index, f"# {folder}\n\n{listed}")
    for path in (path for path in linked & files if path.suffix != ".md"):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, target / path)


def _for_site(page: Path, text: str, files: frozenset[Path], folders: frozenset[Path]) -> str:
    def changed(found: re.Match[str]) -> str:
        path = found[0].partition("#")[0]
        linked = _resolved(page, path)
        if linked in folders:
            return f"{path.rstrip('/')}/README.md"
        return path if linked in files and not path.endswith(".md") else found[0]

    parts = _FENCE.split(text)
    # Every second part is a block of code.
    parts[::2] = (_LINK.sub(changed, part) for part in parts[::2])
    return "".join(parts)


def _targets(text: str) -> Iterator[str]:
    for part in _FENCE.split(text)[::2]:
        for found in _LINK.finditer(part):
            yield found[0].partition("#")[0]


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


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
