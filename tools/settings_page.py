"""The documentation's tables of settings, made from the settings themselves.

    python -m tools.settings_page docs/configuration.md docs/settings.md

In the first file the tables between `<!-- settings: KEY -->` and `<!-- end -->` are rewritten, the
prose around them stays; the second is written whole. `make settings` does it, and a test fails
while they differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tideline.settings.families import ALL_FAMILIES
from tideline.settings.registry import find_setting
from tideline.settings.setting import STORED_ONLY, Setting, Support
from tools.most_used import MOST_USED

_TABLE = re.compile(r"(<!-- settings: ([a-z-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
_MOST_USED = "most-used"
_INTRODUCTION = """# Every setting of Hudi

`make settings` writes this page from `engine/tideline/settings/families/`. It holds every key of
Hudi 1.2, those of its Spark writer, Flink's names for services and Tideline's own. A name that
ends in `.*` stands for all that begin so. [Settings](configuration.md) explains those that are
honoured; a value that is not taken is refused by name.
"""


def configuration_page(page: str) -> str:
    """The page with its tables rewritten. Raises KeyError for a table of an unknown key."""
    tables = {family.key: _honoured(family.settings) for family in ALL_FAMILIES}
    tables[_MOST_USED] = _most_used()
    return _TABLE.sub(lambda found: found[1] + tables[found[2]] + found[3], page)


def settings_page() -> str:
    """Every setting, by what Tideline does with it."""
    everything = [setting for family in ALL_FAMILIES for setting in family.settings]
    by_standing = {
        support: [setting for setting in everything if setting.support is support]
        for support in Support
    }
    given = [
        candidate for candidate in by_standing[Support.HONOURED] if candidate.places != STORED_ONLY
    ]
    parts = [
        _INTRODUCTION,
        "\n## Honoured\n\n",
        _rows(("setting", "other names", "default"), map(_honoured_row, given)),
        "\n## Harmless\n\nTaken, and nothing changes. What touches rows, files, locks or placement "
        "in Hudi has a test that shows it.\n\n",
        _rows(("setting", "why"), map(_reason_row, by_standing[Support.HARMLESS])),
        "\n## Refused\n\nWith the values that are taken, because they say what Tideline does "
        "anyway.\n\n",
        _rows(("setting", "taken", "instead"), map(_refused_row, by_standing[Support.REFUSED])),
    ]
    return "".join(parts)


def _honoured(settings: Iterable[Setting]) -> str:
    shown = [
        setting
        for setting in settings
        if setting.support is Support.HONOURED and setting.places != STORED_ONLY
    ]
    rows = (
        (f"`{candidate.name}`", _cell(candidate.sentence), _default(candidate))
        for candidate in shown
    )
    return _rows(("setting", "meaning", "default"), rows)


def _most_used() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for name in MOST_USED:
            setting = find_setting(name)
            assert setting is not None, name
            taken = f"; taken: {_words(setting)}" if _has_exceptions(setting) else ""
            yield f"`{name}`", str(setting.support), _cell(setting.sentence) + taken

    return _rows(("setting", "here", "what it does, why it does nothing, or what to do"), rows())


def _has_exceptions(setting: Setting) -> bool:
    return setting.support is not Support.HONOURED and bool(setting.words)


def _honoured_row(setting: Setting) -> tuple[str, ...]:
    others = ", ".join(f"`{name}`" for name in setting.aliases)
    return f"`{setting.name}`", others, _default(setting)


def _reason_row(setting: Setting) -> tuple[str, ...]:
    return f"`{setting.name}`", _cell(setting.sentence)


def _refused_row(setting: Setting) -> tuple[str, ...]:
    return _others(setting), _words(setting), _cell(setting.sentence)


def _others(setting: Setting) -> str:
    return ", ".join(f"`{name}`" for name in setting.names)


def _words(setting: Setting) -> str:
    return ", ".join(f"`{word}`" for word in setting.words)


def _default(setting: Setting) -> str:
    own = setting.default.rpartition(".")[2] if "org." in setting.default else setting.default
    text = _cell(own) or "none"
    return f"{text} (Hudi: {setting.hudi_default})" if setting.hudi_default else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _rows(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "".join(re.sub(r" +\|", " |", line) + "\n" for line in lines)


def main(configuration: str, settings: str) -> None:
    """Write both pages."""
    page = Path(configuration)
    page.write_text(configuration_page(page.read_text("utf-8")), "utf-8")
    Path(settings).write_text(settings_page(), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
