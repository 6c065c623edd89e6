"""Argo CD's health of LakeTables: the script of the example, run as Argo CD runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua54 import LuaRuntime

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "kubernetes" / "argocd-health.yaml"
KINDS = ("LakeTable", "LakeCatalog", "LakeStore")


def health(content: dict[str, Any], kind: str = "LakeTable") -> tuple[str, str]:
    """Status and message that the script gives an object."""
    scripts = yaml.safe_load(EXAMPLE.read_text())["data"]
    script = scripts[f"resource.customizations.health.tideline.dev_{kind}"]
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals()["obj"] = lua.table_from(content, recursive=True)
    found = lua.execute(script)
    return found.status, found.message


def table(*conditions: tuple[str, str, str, str], seen: int = 2) -> dict[str, Any]:
    names = ("type", "status", "reason", "message")
    listed = [dict(zip(names, condition, strict=True)) for condition in conditions]
    return {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": seen, "conditions": listed},
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"metadata": {"generation": 1}}, ("Progressing", "waiting for the operator")),
        (
            table(("Ready", "True", "Current", ""), seen=1),
            ("Progressing", "the operator has not seen the newest spec yet"),
        ),
        (table(("SpecValid", "True", "Valid", "")), ("Progressing", "waiting for the operator")),
        (table(("Ready", "True", "Current", "")), ("Healthy", "Current")),
        (table(("Ready", "Unknown", "Paused", "by hand")), ("Suspended", "Paused: by hand")),
        (table(("Ready", "False", "NoTable", "no files")), ("Progressing", "NoTable: no files")),
        (table(("Ready", "Unknown", "NotUsed", "no table")), ("Healthy", "NotUsed: no table")),
        (
            table(
                ("SpecValid", "False", "Invalid", "x"),
                ("Ready", "False", "SpecInvalid", "spec.type: x"),
            ),
            ("Degraded", "SpecInvalid: spec.type: x"),
        ),
    ],
)
def test_health_follows_from_ready(
    content: dict[str, Any], expected: tuple[str, str], kind: str
) -> None:
    assert health(content, kind) == expected


def test_every_reason_to_act_on_is_degraded() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = page.partition("| reason of `Ready` |")[2].partition("\n\n")[0].splitlines()[2:]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert len(named) > 20
    for reason in named - {"Current", "Paused", "NoTable"}:
        status, _ = health(table(("Ready", "False", reason, "")))
        assert status == "Degraded", reason
