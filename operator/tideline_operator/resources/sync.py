"""The part of a LakeTable about metastores: where engines find a Hudi table by its name."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tideline.registration.target import GLUE, HIVE, setting_name
from tideline_operator.resources.field import CelRule, described

SYNCS_MAX = 4
_SERVER = r"thrift://[A-Za-z0-9._-]+(:[0-9]{1,5})?"
THRIFT = rf"{_SERVER}(,{_SERVER}){{0,15}}"
"""Addresses of a Hive metastore."""
_NAME: dict[str, Any] = {
    "pattern": r"[A-Za-z0-9_]{1,128}",
    "pattern_meaning": "letters, digits and _",
    "length_max": 128,
}
_ONE_KIND = "names one metastore"
_ONE_ADDRESS = "give one of region and endpoint"


_DATABASE = "The database; default unless given."
_TABLE = (
    "Name of the table in it; that of the table otherwise. A merge-on-read table is there with _ro "
    "and _rt as well."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveSync:
    """A Hive metastore, and the table's name in it."""

    uri: str = described(
        "Address of the metastore: thrift://host:9083, or several with commas between them.",
        pattern=THRIFT,
        pattern_meaning="thrift://host:9083, or several with commas between them",
        length_max=1024,
    )
    database: str | None = described(_DATABASE, default=None, **_NAME)
    name: str | None = described(_TABLE, default=None, **_NAME)

    def settings(self) -> dict[str, str]:
        """The settings of a write that say so."""
        given = {"uri": self.uri, "database": self.database, "name": self.name}
        return {setting_name(HIVE, what): text for what, text in given.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueSync:
    """AWS's Glue Data Catalog, and the table's name in it. Pods have its LakeStore's keys."""

    region: str | None = described(
        "The region, such as eu-central-1.",
        default=None,
        pattern=r"[a-z]{2}[a-z0-9-]{1,30}",
        pattern_meaning="a region such as eu-central-1",
        length_max=32,
    )
    endpoint: str | None = described(
        "Another address than Amazon's own of the region, such as that of a VPC endpoint.",
        default=None,
        pattern=r"https?://[A-Za-z0-9._:/-]+",
        pattern_meaning="http(s)://host",
        length_max=1024,
    )
    database: str | None = described(_DATABASE, default=None, **_NAME)
    name: str | None = described(_TABLE, default=None, **_NAME)

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("has(self.region) != has(self.endpoint)", _ONE_ADDRESS, field="region"),
    )

    def settings(self) -> dict[str, str]:
        """The settings of a write that say so."""
        address = self.endpoint or self.region
        given = {"uri": address, "database": self.database, "name": self.name}
        return {setting_name(GLUE, what): text for what, text in given.items() if text is not None}

    def faults(self) -> Iterator[tuple[str, str]]:
        """One address."""
        if (self.region is None) == (self.endpoint is None):
            yield "region", _ONE_ADDRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A metastore in which every commit is registered."""

    hive: HiveSync | None = described("A Hive metastore.", default=None)
    glue: GlueSync | None = described("AWS's Glue Data Catalog.", default=None)

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("has(self.hive) != has(self.glue)", _ONE_KIND, field="hive"),
    )

    @property
    def kind(self) -> str:
        return HIVE if self.glue is None else GLUE

    def settings(self) -> dict[str, str]:
        """The settings of a write that say so, but for its kind."""
        found = self.hive or self.glue
        return {} if found is None else found.settings()

    def faults(self) -> Iterator[tuple[str, str]]:
        """One metastore."""
        if (self.hive is None) == (self.glue is None):
            yield "hive", _ONE_KIND
