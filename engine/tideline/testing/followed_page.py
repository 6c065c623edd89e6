"""A page of the docs, followed as a newcomer follows it: its blocks, in order, in one terminal.

1. Blocks of `bash` are typed, blocks of `python` are run as scripts. One with a name is saved
   under it: ```python follow.py. Blocks of other languages are only to be read.
2. INSTANT stands for the first instant in what the blocks before it printed last.
3. `<!-- until follow.log has UPDATE -->` above a block waits as the reader does who looks there;
   `<!-- not run: REASON -->` leaves the block out.

A command that fails ends the page.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

TIMEOUT_S = 300
_FENCE = "```"
_UNTIL = re.compile(r"<!-- until (\S+) has (.+) -->")
_NOT_RUN = re.compile(r"<!-- not run: .+ -->")
_INSTANT = re.compile(r"\b20\d{15}\b")
_DONE = "the block is done"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page. `line` is where it begins, `until` a file and what has to be in it."""

    line: int
    language: str
    name: str
    code: str
    until: tuple[str, str] | None = None
    is_run: bool = True


class BlockFailedError(Exception):
    """A command of a block failed, or took too long; the message has what was printed."""


def blocks_of(page: str) -> Iterator[Block]:
    """The blocks of a page of Markdown."""
    remark = ""
    lines = iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        if line.startswith(_FENCE):
            language, _, name = line.removeprefix(_FENCE).partition(" ")
            code = [text for _, text in takewhile(lambda pair: pair[1] != _FENCE, lines)]
            until = _UNTIL.fullmatch(remark)
            yield Block(
                number,
                language,
                name,
                "\n".join(code) + "\n",
                (until[1], until[2]) if until else None,
                not _NOT_RUN.fullmatch(remark),
            )
        remark = line


class Terminal:
    """A shell in a folder: what one block sets, starts or leaves is there for the next."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._screen = folder / ".screen"
        self._typed = 0
        with self._screen.open("wb") as output:
            self._shell = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-e"],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def type(self, code: str) -> str:
        """What the commands print. Raises BlockFailedError."""
        self._typed += 1
        begin = self._screen.stat().st_size
        script = self.folder / f".typed-{self._typed}"
        script.write_text(code)
        assert self._shell.stdin is not None
        self._shell.stdin.write(f". ./{script.name} < /dev/null\necho {_DONE} {self._typed}\n")
        self._shell.stdin.flush()
        end = f"{_DONE} {self._typed}\n"
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            has_ended = self._shell.poll() is not None
            printed = self._screen.read_bytes()[begin:].decode()
            if printed.endswith(end):
                return printed.removesuffix(end)
            if has_ended or time.monotonic() > deadline:
                raise BlockFailedError(f"{code}\n{printed}")
            time.sleep(0.05)

    def wait(self, name: str, text: str) -> None:
        """Until a file has a text. Raises BlockFailedError."""
        file, deadline = self.folder / name, time.monotonic() + TIMEOUT_S
        while not (file.is_file() and text in file.read_text()):
            if time.monotonic() > deadline:
                found = file.read_text() if file.is_file() else "nothing"
                raise BlockFailedError(f"{name} never had {text}, but {found}")
            time.sleep(0.2)

    def close(self) -> None:
        """End the shell, and everything that was started in it."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


def follow(page: Path, terminal: Terminal) -> list[tuple[Block, str]]:
    """Do what a page says; the blocks that were run, each with what it printed.

    Raises BlockFailedError naming page and line.
    """
    done: list[tuple[Block, str]] = []
    instant = "INSTANT"
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if not block.is_run or block.language not in ("bash", "python"):
            continue
        try:
            if block.until:
                terminal.wait(*block.until)
            printed = _do(block, block.code.replace("INSTANT", instant), terminal)
        except BlockFailedError as failure:
            raise BlockFailedError(f"{page.name}, line {block.line}: {failure}") from failure
        found = _INSTANT.search(printed)
        instant = found[0] if found else instant
        done.append((block, printed))
    return done


def _do(block: Block, code: str, terminal: Terminal) -> str:
    if block.language == "bash":
        return terminal.type(code)
    script = block.name or f"block_{block.line}.py"
    (terminal.folder / script).write_text(code)
    return "" if block.name else terminal.type(f"python {script}\n")
