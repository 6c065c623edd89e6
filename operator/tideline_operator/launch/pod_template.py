"""Overlaying pod templates: our defaults, the operator's, a table's, what we require. Pure.

Mappings merge key by key, containers by name. A volume or a variable replaces the one of its name,
a mount the one at its path, a port the one of its number. Of lists of plain values the upper one
counts; other lists (tolerations) are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.executors.kubernetes_pods import CONTAINER_NAME
from tideline_operator.resources.quantity import memory_bytes

_IDENTITY = {
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_MERGED = ("containers", "initContainers")
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the restricted Pod Security Standard asks of every container."""
_FIELD = "spec.podTemplate"


def checked_template(content: Mapping[str, Any], whose: str = _FIELD) -> dict[str, Any]:
    """`spec.podTemplate`, when it has the shape of a pod template. Raises ConfigError naming the
    field, `whose` and what is in it."""
    unknown = sorted(set(content) - {"metadata", "spec"})
    if unknown:
        raise ConfigError(f"{whose}.{unknown[0]}: a pod template has metadata and spec only")
    template: dict[str, Any] = {}
    for part in ("metadata", "spec"):
        template[part] = _mapping(content.get(part, {}), f"{whose}.{part}")
    metadata = template["metadata"]
    foreign = sorted(set(metadata) - {"labels", "annotations"})
    if foreign:
        raise ConfigError(f"{whose}.metadata.{foreign[0]}: only labels and annotations are taken")
    for part in metadata:
        _mapping(metadata[part], f"{whose}.metadata.{part}")
    for name, identity in _IDENTITY.items():
        _check_items(template["spec"].get(name, []), identity, f"{whose}.spec.{name}")
    for kind in _MERGED:
        for number, container in enumerate(template["spec"].get(kind, [])):
            for name, identity in _IDENTITY.items():
                field = f"{whose}.spec.{kind}[{number}].{name}"
                _check_items(container.get(name, []), identity, field)
    return template


def confined_template(content: Mapping[str, Any], operators: Mapping[str, Any]) -> dict[str, Any]:
    """A table's template over the operator's: what only the latter makes stays as it is, and other
    containers have no more rights than Tideline's. Raises ConfigError."""
    template = checked_template(content)
    if CONTAINER_NAME in _names(template, "initContainers"):
        raise ConfigError(
            f"{_FIELD}.spec.initContainers: {CONTAINER_NAME!r} is the name of Tideline's container"
        )
    _refuse_parts_of(operators, template)
    besides_engine_bytes(content)
    spec = dict(template["spec"])
    for kind in _MERGED:
        if kind in spec:
            spec[kind] = [
                item
                if item["name"] == CONTAINER_NAME
                else overlay({"securityContext": CONFINED}, item)
                for item in spec[kind]
            ]
    return {**template, "spec": spec}


def besides_engine_bytes(content: Mapping[str, Any]) -> int:
    """Memory that the containers of a table's template ask for besides Tideline's; of those that
    run before it the largest counts. Raises ConfigError."""
    together, before = 0, 0
    for kind in _MERGED:
        for number, container in enumerate((content.get("spec") or {}).get(kind, ())):
            if container["name"] == CONTAINER_NAME:
                continue
            field = f"{_FIELD}.spec.{kind}[{number}].resources"
            asked = _memory_of(container.get("resources") or {}, field)
            if kind == "containers" or container.get("restartPolicy") == "Always":
                together += asked
            else:
                before = max(before, asked)
    return together + before


def overlay(lower: Any, upper: Any, field: str = "") -> Any:
    """`upper` over `lower`: the upper one wins; None removes a field."""
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        merged = dict(lower)
        for name, value in upper.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = overlay(lower.get(name), value, name)
        return merged
    if isinstance(lower, list) and isinstance(upper, list):
        return _overlay_lists(lower, upper, field)
    return _without_nulls(upper) if isinstance(upper, Mapping) else upper


def engine_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """The container in which Tideline runs."""
    containers = template["spec"]["containers"]
    return next(item for item in containers if item["name"] == CONTAINER_NAME)


def _without_nulls(upper: Mapping[str, Any]) -> dict[str, Any]:
    """Where nothing is below, there is nothing to remove."""
    return {name: overlay(None, value) for name, value in upper.items() if value is not None}


def _overlay_lists(lower: list[Any], upper: list[Any], field: str) -> list[Any]:
    identity = _IDENTITY.get(field)
    if identity is not None:
        merged = {item[identity]: item for item in lower}
        for item in upper:
            below = merged.get(item[identity], {}) if field in _MERGED else {}
            merged[item[identity]] = overlay(below, item)
        return list(merged.values())
    if all(isinstance(item, Mapping) for item in (*lower, *upper)):
        return [*lower, *(item for item in upper if item not in lower)]
    return upper


def _refuse_parts_of(operators: Mapping[str, Any], users: Mapping[str, Any]) -> None:
    """Raise ConfigError where a table's template, as checked, reaches into what only the operator's
    own template makes: its containers, which may do more than those of a table, and its volumes.
    The container that both know is Tideline's."""
    made = {kind: _names(operators, kind) - {CONTAINER_NAME} for kind in _MERGED}
    volumes = _names(operators, "volumes")
    own_volumes = _names(users, "volumes")
    for name in sorted(own_volumes & volumes):
        raise ConfigError(f"{_FIELD}.spec.volumes: {name!r} is a volume of the operator's template")
    for kind in _MERGED:
        for number, container in enumerate(users["spec"].get(kind, [])):
            field = f"{_FIELD}.spec.{kind}[{number}]"
            if any(container["name"] in names for names in made.values()):
                raise ConfigError(
                    f"{field}.name: {container['name']!r} is a container of the operator's template"
                )
            for mount in container.get("volumeMounts", []):
                if mount.get("name") in volumes:
                    raise ConfigError(
                        f"{field}.volumeMounts: {mount['name']!r} is a volume of the operator's "
                        "template"
                    )


def _memory_of(resources: Mapping[str, Any], field: str) -> int:
    """What a container requests: its limit where it has nothing else."""
    for part in ("requests", "limits"):
        text = (resources.get(part) or {}).get("memory")
        if text is not None:
            try:
                return memory_bytes(str(text))
            except ConfigError as error:
                problem = f"{field}.{part}.memory: {error.message}"
                raise ConfigError(problem, value=error.value) from error
    return 0


def _names(template: Mapping[str, Any], kind: str) -> set[str]:
    """The names of containers or volumes."""
    return {str(item["name"]) for item in template.get("spec", {}).get(kind, [])}


def _mapping(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{field}: must be a mapping")
    return dict(value)


def _check_items(items: Any, identity: str, field: str) -> None:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise ConfigError(f"{field}: must be a list")
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise ConfigError(f"{field}[{number}]: must be a mapping")
        if identity not in item:
            raise ConfigError(f"{field}[{number}].{identity}: is required")
