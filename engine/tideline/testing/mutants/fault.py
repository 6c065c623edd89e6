"""A fault as a value: where, what, and which tests have to notice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tideline.testing.mutants.anchor import replaced, spans


@dataclass(frozen=True, slots=True)
class Fault:
    """Replacing `old`, found exactly once in `path` (`anchor`), by `new` breaks what `name` says.

    `path` is relative to the repository. `tests` are what to hand to pytest: files or node ids,
    with `-k` if need be; they pass without the fault, and at least one of them fails with it.

    Where one guard makes up for another, `more` are the further places of the fault: path, `old`
    and `new` of each.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    more: tuple[tuple[str, str, str], ...] = ()

    @property
    def places(self) -> tuple[Fault, ...]:
        """The fault, one place at a time."""
        own = replace(self, more=())
        others = (replace(own, path=path, old=old, new=new) for path, old, new in self.more)
        return (own, *others)

    @property
    def test_file(self) -> str:
        """The first file of its tests."""
        return self.tests[0].partition("::")[0]

    def plant(self, root: Path) -> Mapping[str, str]:
        """Put the fault into the copy of the project at `root`; returns the texts from before, by
        path.

        Raises ValueError when a place is not what it was when the fault was written.
        """
        before, planted = {}, {}
        for place in self.places:
            file = root / place.path
            before[place.path] = file.read_text("utf-8") if file.exists() else ""
            planted[place.path] = place.planted_in(before[place.path])
        for path, text in planted.items():
            write_source(root / path, text)
        return before

    def planted_in(self, text: str) -> str:
        """The module's text with the fault. Raises ValueError as `plant`."""
        found = spans(text, self.old)
        if len(found) != 1:
            raise ValueError(
                f"{self.name}: {self.path} has {self.old.strip().splitlines()[0]!r} ... "
                f"{len(found)} times, not once: rewrite the fault"
            )
        return replaced(text, found[0], self.old, self.new)


def write_source(file: Path, text: str) -> None:
    """Replace a module's text so that bytecode of the text before is never taken for it.

    Python compares size and whole seconds, and a fault may come and go within one.
    """
    before_s = int(file.stat().st_mtime)
    file.write_text(text, "utf-8")
    os.utime(file, (before_s + 1, before_s + 1))
