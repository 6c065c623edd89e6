"""docs/security.md lists every right that the manifests give, and no other."""

from __future__ import annotations

from pathlib import Path

import yaml

from tideline_operator.testing.documented_rights import Right, documented_rights, rights_in

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "charts" / "tideline" / "operator.yaml"
FOR_USERS = {"tideline-view", "tideline-edit", "tideline-admin"}


def test_the_documented_rights_are_those_of_the_manifests() -> None:
    assert documented_rights() == given_rights()


def given_rights() -> set[Right]:
    """Role, resource and verb of every rule."""
    found: set[Right] = set()
    for manifest in yaml.safe_load_all(MANIFESTS.read_text("utf-8")):
        if not manifest or manifest["kind"] not in ("ClusterRole", "Role"):
            continue
        role = manifest["metadata"]["name"]
        if role not in FOR_USERS:
            found |= rights_in(role, manifest["rules"])
    return found
