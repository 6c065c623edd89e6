"""docs/security.md lists every right that the manifests give, and no other."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "charts" / "tideline" / "operator.yaml"
DOCUMENT = ROOT / "docs" / "security.md"
HEADER = "| account | resource | verbs |"
FOR_USERS = {"tideline-view", "tideline-edit", "tideline-admin"}

Right = tuple[str, str, str]


def test_the_documented_rights_are_those_of_the_manifests() -> None:
    assert documented_rights() == given_rights()


def given_rights() -> set[Right]:
    """Role, resource and verb of every rule."""
    found = set()
    for manifest in yaml.safe_load_all(MANIFESTS.read_text("utf-8")):
        if not manifest or manifest["kind"] not in ("ClusterRole", "Role"):
            continue
        role = manifest["metadata"]["name"]
        for rule in manifest["rules"] if role not in FOR_USERS else ():
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        what = named(resource, group) + (f"={name}" if name else "")
                        found |= {(role, what, verb) for verb in rule["verbs"]}
    return found


def documented_rights() -> set[Right]:
    lines = DOCUMENT.read_text("utf-8").partition(HEADER)[2].splitlines()[2:]
    found, role = set(), ""
    for line in lines[: next(number for number, text in enumerate(lines) if not text)]:
        account, resources, verbs = (cell.strip() for cell in line.strip("|").split("|"))
        role = account.strip("`") or role
        found |= {
            (role, resource.strip(" `"), verb.strip())
            for resource in resources.split(",")
            for verb in verbs.split(",")
        }
    return found


def named(resource: str, group: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource
