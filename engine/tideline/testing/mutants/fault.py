"""A fault as a value: where, what, and which tests have to notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """Replacing `old`, found exactly once in `path`, by `new` breaks what `name` says.

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
        found = text.count(self.old)
        if found != 1:
            raise ValueError(
                f"{self.name}: {self.path} has the text {self.old.strip().splitlines()[0]!r} ... "
                f"{found} times, not once: write the fault anew"
            )
        file.write_text(text.replace(self.old, self.new), "utf-8")
        return text
