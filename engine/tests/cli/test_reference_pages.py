"""The pages of commands and Python names are what the code says (`make reference` writes them)."""

from __future__ import annotations

from pathlib import Path

import tideline
from tools.api_page import api_page
from tools.command_page import command_page

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_of_commands_is_up_to_date() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    assert command_page() == page, "run `make reference`"
    for command in ("run", "iceberg remove-orphans", "savepoint create", "completion"):
        assert f"\n## tideline {command}\n" in page


def test_the_page_of_python_names_is_up_to_date() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    assert api_page() == page, "run `make reference`"
    for name in tideline.__all__:
        assert name.startswith("__") or f"tideline.{name}" in page, name
