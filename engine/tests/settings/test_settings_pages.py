"""The documentation of settings is what the registry says (`make settings` writes it)."""

from __future__ import annotations

from pathlib import Path

from tideline.settings.registry import all_settings
from tools.settings_page import configuration_page, settings_page

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_tables_of_settings_are_up_to_date() -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    assert configuration_page(page) == page, "run `make settings`"
    assert "<!-- settings: most-used -->" in page


def test_the_page_of_every_setting_is_up_to_date() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    assert settings_page() == page, "run `make settings`"
    for setting in all_settings():
        assert f"`{setting.name}`" in page or len(setting.places) == 1
