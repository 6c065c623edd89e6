"""The committed CustomResourceDefinitions: made from the resources, bounded, described, small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.crds import as_yaml, custom_resource_definitions, file_name
from tools.resource_page import resource_page

ROOT = Path(__file__).resolve().parents[3]
CRDS = ROOT / "charts" / "tideline" / "crds"
DEFINITIONS = {item["spec"]["names"]["kind"]: item for item in custom_resource_definitions()}
# `kubectl apply` on the client's side keeps a copy in an annotation of at most this many bytes.
ANNOTATION_BYTES_MAX = 262_144
VOLUME_KINDS = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
"""Those of the restricted Pod Security Standard."""


def schema_of(kind: str) -> dict[str, Any]:
    (version,) = DEFINITIONS[kind]["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside `schema`, with its path."""
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from parts(member, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from parts(schema[name], f"{path}[]")


def spec_and_status(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, member in schema_of(kind)["properties"].items():
        if name != "metadata":
            yield from parts(member, f"{kind}.{name}")


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_the_committed_definition_is_what_the_resources_say(kind: str) -> None:
    definition = DEFINITIONS[kind]
    committed = (CRDS / file_name(definition)).read_text("utf-8")
    assert committed == as_yaml(definition), "run `make crds`"
    assert yaml.safe_load(committed) == definition


def test_no_definition_is_left_over() -> None:
    assert sorted(path.name for path in CRDS.iterdir()) == sorted(
        file_name(item) for item in DEFINITIONS.values()
    )


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_a_definition_stays_far_below_what_an_annotation_holds(kind: str) -> None:
    assert len(json.dumps(DEFINITIONS[kind])) < ANNOTATION_BYTES_MAX / 2


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_every_field_is_described(kind: str) -> None:
    silent = [
        path
        for path, schema in spec_and_status(kind)
        if not path.endswith("[]") and not schema.get("description")
    ]
    assert not silent


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_every_text_list_and_mapping_has_a_bound(kind: str) -> None:
    bounds = {"string": ("maxLength", "enum"), "array": ("maxItems",)}
    endless = [
        path
        for path, schema in spec_and_status(kind)
        if not any(bound in schema for bound in bounds.get(schema.get("type", ""), tuple(schema)))
        or ("additionalProperties" in schema and "maxProperties" not in schema)
    ]
    assert not endless


def test_only_kept_specs_and_harmless_parts_of_pods_are_free_form() -> None:
    free = {
        path
        for path, schema in parts(schema_of("LakeTable"), "")
        if "x-kubernetes-preserve-unknown-fields" in schema and not is_refused(path)
    }
    spec, container = ".spec.podTemplate.spec", ("containers[]", "initContainers[]")
    assert free == {
        ".status.lastValidSpec",
        *(f"{spec}.{name}" for name in ("affinity", "dnsConfig")),
        *(f"{spec}.{name}[]" for name in ("tolerations", "topologySpreadConstraints")),
        f"{spec}.hostAliases[]",
        *(f"{spec}.{entry}.env[].valueFrom" for entry in container),
        *(f"{spec}.{entry}.envFrom[]" for entry in container),
        *(f"{spec}.volumes[].{kind}" for kind in VOLUME_KINDS),
    }


def is_refused(path: str) -> bool:
    """Whether a rule on the object around a member refuses it."""
    around, _, name = path.removesuffix("[]").rpartition(".")
    schema = dict(parts(schema_of("LakeTable"), "")).get(around, {})
    rules = schema.get("x-kubernetes-validations", ())
    return any(rule["rule"] == f"!has(self.{name})" for rule in rules)


def test_a_status_is_stored_as_it_is_written() -> None:
    status = schema_of("LakeTable")["properties"]["status"]
    altered = [
        path
        for path, schema in parts(status, "status")
        if "default" in schema or "minLength" in schema
    ]
    assert not altered


def test_every_rule_has_a_message() -> None:
    rules = [
        rule
        for kind in DEFINITIONS
        for _, schema in parts(schema_of(kind), kind)
        for rule in schema.get("x-kubernetes-validations", ())
    ]
    assert len(rules) > 30
    assert all(rule["message"] for rule in rules)


def test_the_committed_reference_is_what_the_resources_say() -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert page == resource_page(), "run `make crds`"
