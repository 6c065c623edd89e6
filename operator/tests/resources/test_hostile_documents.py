"""Resource files that would take all memory, or raise an error in Python, are refused."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline_operator.resources.documents import read_documents


def laughs(brackets: str, levels: int = 9) -> str:
    """Each name ten times the one before: of ten to the tenth values in all."""
    begin, end = tuple(brackets)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, levels):
        items = ",".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} {begin}{items}{end}")
    return "\n".join(lines)


def merges(levels: int) -> str:
    """A mapping that brings in ten, and each of them ten, all defined inside `<<`."""
    inner = "{k: 1}"
    for number in range(levels):
        others = ", ".join([f"*m{number}"] * 9)
        inner = f"{{<<: [&m{number} {inner}, {others}], k{number}: 1}}"
    return f"top: {inner}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (laughs("[]"), "too large or nested too deeply"),
        (merges(9), "too large or nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("\n".join(" " * level + "a:" for level in range(2_000)), "nested too deeply"),
        ("&a [*a]", "too large or nested too deeply"),
        ("&a {b: *a}", "too large or nested too deeply"),
        ("a: " + "9" * 5_000, "not a valid value"),
        ("a: " + "9" * 30, "too many digits"),
        ("a: 1" + ":59" * 3_000, "too many digits"),
        ("a: 2026-13-45", "not a valid value"),
        ("a: b\0c", "not valid YAML"),
        ("a: !!python/name:os.system", "not valid YAML"),
        ("a: " + "x" * 5_000_000, "longer than 4,000,000 characters"),
    ],
    ids=range(14),
)
def test_hostile_yaml_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        read_documents(text, file="lake.yaml")
    assert "lake.yaml" in str(raised.value)
    assert len(str(raised.value)) < 1_000


def test_aliases_and_merges_of_modest_size_are_read() -> None:
    (document,) = read_documents(f"{merges(3)}\n{laughs('[]', 3)}", file="lake.yaml")
    assert isinstance(document.value, dict)
    assert document.value["top"] == {"k": 1, "k0": 1, "k1": 1, "k2": 1}
    assert len(document.value["a2"]) == 10
