"""The prompt of `tideline sql`: statements that end with ";", and a few commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tideline.cli.output import print_line
from tideline.errors import TidelineError

_FIRST, _NEXT = "sql> ", "...> "
_HELP = """\
A statement ends with ";" and may have several lines; Ctrl-C drops it.
.tables  which tables there are; "describe t;" says what columns one has
.help    this text
.quit    ends, as Ctrl-D does"""


class Prompt:
    """Reads statements from a terminal and has each carried out; errors do not end it."""

    def __init__(self, run: Callable[[str], None], describe_tables: Callable[[], None]) -> None:
        self._run = run
        self._describe_tables = describe_tables

    def read(self) -> None:
        """Until the end of input, or `.quit`."""
        # Lines can be edited, and earlier ones called back, once this is imported.
        import readline  # noqa: F401

        self._describe_tables()
        print_line('Statements end with ";". .help says more.')
        waiting = ""
        while True:
            try:
                line = input(_NEXT if waiting else _FIRST)
            except EOFError:
                print_line()
                return
            except KeyboardInterrupt:
                print_line()
                waiting = ""
                continue
            if not waiting and line.strip().startswith("."):
                if self._command(line.strip()):
                    return
                continue
            waiting = f"{waiting}{line}\n" if waiting or line.strip() else ""
            if waiting.rstrip().endswith(";"):
                self._carry_out(waiting)
                waiting = ""

    def _command(self, line: str) -> bool:
        """Whether it was the last."""
        if line in (".quit", ".exit"):
            return True
        if line == ".tables":
            self._describe_tables()
        else:
            print_line(_HELP)
        return False

    def _carry_out(self, statement: str) -> None:
        try:
            self._run(statement)
        except TidelineError as error:
            print(f"tideline: {' '.join(str(error).split())}", file=sys.stderr)
        except KeyboardInterrupt:
            print("tideline: interrupted", file=sys.stderr)
