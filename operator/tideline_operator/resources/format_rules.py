"""Which fields of a LakeTable belong to which table format: in CEL, and for the parser.

The API server fills in defaults before it checks rules, so a field that has one counts as written
only where it differs from its default.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from tideline_operator.resources.field import CelRule, json_name

_HUDI_FIELDS = (
    "type",
    "table_version",
    "index",
    "indexes",
    "uniqueness",
    "key_generator",
    "timezone",
    "publish",
    "sync",
    "properties",
    "savepoints",
    "restore_to",
)
_HUDI_SERVICES = (
    "compaction",
    "log_compaction",
    "clustering",
    "cleaning",
    "archiving",
    "partition_ttl",
)
_ICEBERG_SERVICES = (
    "rewrite_data_files",
    "rewrite_position_deletes",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
)
_ICEBERG_FIELDS = ("format_version",)
_ICEBERG_SETTINGS = ("quiet_for",)
SERVICE_NAMES = tuple(json_name(name) for name in _HUDI_SERVICES)
ICEBERG_SERVICE_NAMES = tuple(json_name(name) for name in _ICEBERG_SERVICES)

_ONLY_HUDI = "is for Hudi tables"
_ICEBERG_INSERTS = ("insert", "bulk_insert")
_NO_KEY = "is required for an ingest that upserts or deletes: the columns that identify a row"
_HUDI_TERMS = "names columns of a Hudi table; day(...) and the like are Iceberg's"
_ICEBERG_TERMS = "has no :SIMPLE and :TIMESTAMP in an Iceberg table, but day(...) and the like"
_NO_DELETION = "Delete is for Hudi tables; the files of an Iceberg table stay"
_ONLY_HUDI_SERVICE = (
    f"is a service of Hudi tables; Iceberg tables have {', '.join(ICEBERG_SERVICE_NAMES)}"
)
_NO_CATALOG = (
    "is for Iceberg tables (format: Iceberg) and for Hudi tables that are published in it "
    "(publish: [Iceberg])"
)
_ONLY_ICEBERG_SERVICE = "is a service of Iceberg tables (spec.format: Iceberg)"
_ONLY_ICEBERG_SETTING = "is for Iceberg tables (spec.format: Iceberg)"
_NO_LOCATION = "is required: where the table lives"
_ONE_PLACE = (
    "give one of location (the folder of a table that no catalog keeps) and catalog for an Iceberg "
    "table"
)


def format_rules(spec: type, services: type) -> tuple[CelRule, ...]:
    """What each format refuses; `spec` and `services` are the classes whose fields these are."""
    is_hudi, is_iceberg = "self.format != 'Iceberg'", "self.format == 'Iceberg'"
    placed = f"{is_iceberg} || has(self.location) && self.location.size() > 0"
    one_place = f"{is_hudi} || has(self.location) != has(self.catalog)"
    keyed = (
        f"{is_hudi} || (has(self.recordKey) && self.recordKey.size() > 0) || !has(self.ingest) || "
        f"self.ingest.all(i, i.operation in {list(_ICEBERG_INSERTS)})"
    )
    stays = f"{is_hudi} || self.deletionPolicy == 'Retain'"
    rules = [
        CelRule(placed, _NO_LOCATION, field="location"),
        CelRule(one_place, _ONE_PLACE, field="location"),
        CelRule(keyed, _NO_KEY, field="recordKey"),
        CelRule(_terms_lack(is_iceberg, "("), _HUDI_TERMS, field="partitionBy"),
        CelRule(_terms_lack(is_hudi, ":"), _ICEBERG_TERMS, field="partitionBy"),
        CelRule(stays, _NO_DELETION, field="deletionPolicy"),
        CelRule(
            f"{is_iceberg} || !has(self.catalog) || has(self.publish) && self.publish.size() > 0",
            _NO_CATALOG,
            field="catalog",
        ),
    ]
    for name in _HUDI_FIELDS:
        is_absent = f"{is_hudi} || {_as_default(spec, name, 'self')}"
        rules.append(CelRule(is_absent, _ONLY_HUDI, field=json_name(name)))
    for name in _ICEBERG_FIELDS:
        is_absent = f"{is_iceberg} || {_as_default(spec, name, 'self')}"
        rules.append(CelRule(is_absent, _ONLY_ICEBERG_SETTING, field=json_name(name)))
    for names, other, message in (
        (_HUDI_SERVICES, is_hudi, _ONLY_HUDI_SERVICE),
        (_ICEBERG_SERVICES, is_iceberg, _ONLY_ICEBERG_SERVICE),
        (_ICEBERG_SETTINGS, is_iceberg, _ONLY_ICEBERG_SETTING),
    ):
        for name in names:
            is_absent = f"{other} || {_as_default(services, name, 'self.services')}"
            rules.append(CelRule(is_absent, message, field=f"services.{json_name(name)}"))
    return tuple(rules)


def _terms_lack(is_other: str, mark: str) -> str:
    """A CEL condition: the terms of partitions have none of it, but in tables of the other kind."""
    return f"{is_other} || !has(self.partitionBy) || self.partitionBy.all(c, !c.contains('{mark}'))"


def hudi_service_rules(services: type) -> tuple[CelRule, ...]:
    """What a resource refuses that is about Iceberg tables alone."""
    return tuple(
        CelRule(
            _as_default(services, name, "self.services"),
            _ONLY_HUDI_SERVICE,
            field=f"services.{json_name(name)}",
        )
        for name in _HUDI_SERVICES
    )


def hudi_service_faults(services: Any) -> Iterator[tuple[str, str]]:
    """The same for a parsed spec."""
    for name in _written(services, _HUDI_SERVICES):
        yield f"services.{json_name(name)}", _ONLY_HUDI_SERVICE


def format_faults(spec: Any, *, is_iceberg: bool) -> Iterator[tuple[str, str]]:
    """The same for a parsed spec."""
    services = spec.services
    if not is_iceberg:
        if not spec.location:
            yield "location", _NO_LOCATION
        if spec.catalog is not None and not spec.publish:
            yield "catalog", _NO_CATALOG
        if any("(" in term for term in spec.partition_by):
            yield "partitionBy", _HUDI_TERMS
        for name in _written(spec, _ICEBERG_FIELDS):
            yield json_name(name), _ONLY_ICEBERG_SETTING
        for name in _written(services, _ICEBERG_SERVICES):
            yield f"services.{json_name(name)}", _ONLY_ICEBERG_SERVICE
        for name in _written(services, _ICEBERG_SETTINGS):
            yield f"services.{json_name(name)}", _ONLY_ICEBERG_SETTING
        return
    if bool(spec.location) == (spec.catalog is not None):
        yield "location", _ONE_PLACE
    if any(":" in term for term in spec.partition_by):
        yield "partitionBy", _ICEBERG_TERMS
    inserts = all(ingest.operation.value in _ICEBERG_INSERTS for ingest in spec.ingest)
    if not inserts and not spec.record_key:
        yield "recordKey", _NO_KEY
    if spec.deletion_policy.value != "Retain":
        yield "deletionPolicy", _NO_DELETION
    for name in _written(spec, _HUDI_FIELDS):
        yield json_name(name), _ONLY_HUDI
    yield from hudi_service_faults(services)


def _written(owner: Any, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if getattr(owner, name) != _default(type(owner), name)]


def _as_default(owner: type, name: str, path: str) -> str:
    """A CEL condition: the member of that name is absent, or has its default."""
    default = _default(owner, name)
    member = f"{path}.{json_name(name)}"
    if default in ((), {}, ""):
        return f"(!has({member}) || {member}.size() == 0)"
    if default is None:
        return f"!has({member})"
    return f"(!has({member}) || {_equals(default, member)})"


def _equals(default: Any, path: str) -> str:
    if dataclasses.is_dataclass(default) and not hasattr(type(default), "parse"):
        fields = dataclasses.fields(default)
        return " && ".join(_as_default(type(default), field.name, path) for field in fields)
    if isinstance(default, bool | int):
        return f"{path} == {json.dumps(default)}"
    return f"{path} == '{getattr(default, 'value', default)}'"


def _default(owner: type, name: str) -> Any:
    (field,) = (item for item in dataclasses.fields(owner) if item.name == name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
