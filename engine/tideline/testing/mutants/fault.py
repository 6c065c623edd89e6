"""A fault as a value: where, what, and which tests have to notice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tideline.testing.mutants.anchor import replaced, spans


@dataclass(frozen=True, slots=True)
class Fault:
    """Replacing `old`, found exactly once in `path` (`anchor`), by `new` breaks what `name` says.

    `path` is relative to the repository. `tests` are what to hand to pytest: files or node ids,
    with `-k` if need be; they pass without the fault, and at least one of them fails with it.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> str:
        """Put the fault into the copy of the project at `root`; returns the text from before.

        Raises ValueError when the place is not what it was when the fault was written.
        """
        file = root / self.path
        text = file.read_text("utf-8") if file.exists() else ""
        write_source(file, self.planted_in(text))
        return text

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
