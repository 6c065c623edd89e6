"""What the Kubernetes API server refuses in the spec of a LakeTable, in CEL.

The same as `LakeTableSpec.faults()` and the checks of resources/loading.py as far as CEL can say
it. Every list and string in these rules is bounded, which keeps them inside the server's budget.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.hudi.table.layout.known_layouts import TABLE_VERSIONS
from tideline.storage.kinds import KINDS
from tideline_operator.resources.field import CelRule, no_credentials_in
from tideline_operator.resources.format_rules import ICEBERG_SERVICE_NAMES, SERVICE_NAMES
from tideline_operator.resources.ingest import ONE_SOURCE_SECRET

EVENT_TIME = ("hoodie.record.merge.mode", "EVENT_TIME_ORDERING")

REMOTE_SCHEMES = tuple(
    scheme for kind in KINDS.values() if kind.is_remote for scheme in (kind.scheme, *kind.aliases)
)
"""Of locations in stores at servers."""
_AT_A_SERVER = tuple(f"{scheme}://" for scheme in REMOTE_SCHEMES)
_COMPARISONS_MAX = 5_000
_IS_REMOTE = " || ".join(f"{{0}}.startsWith('{scheme}')" for scheme in _AT_A_SERVER)
_LANDS_REMOTE = _IS_REMOTE.format("i.source.path")
_AS_FOLDER = "({0}.endsWith('/') ? {0} : {0} + '/')"
_LOCATION, _LANDING = _AS_FOLDER.format("self.location"), _AS_FOLDER.format("i.source.path")


def _distinct(field: str) -> CelRule:
    """No column is named twice; the order of the list counts, so it is not a set."""
    return CelRule(
        f"!has(self.{field}) || self.{field}.all(c, self.{field}.exists_one(d, c == d))",
        "lists a column twice",
        field=field,
    )


def _declared(field: str, *, owner: str = "self", unless: str = "false") -> CelRule:
    """Columns, or the structs that hold them, are in the schema when there is one.

    Its names are prepared once, in a list of one list: CEL has no other way to name a value. For
    very wide tables the operator checks it: the server aborts a rule that costs too much.
    """
    columns = f"{owner}.{field.rpartition('.')[2]}"
    names = "[self.schema.map(c, c.name.lowerAscii() + '.')]"
    # `a.b` is in struct a; `a:TIMESTAMP` is column a for a CUSTOM key generator.
    is_declared = "names.exists(n, (k.lowerAscii() + '.').replace(':', '.').startsWith(n))"
    return CelRule(
        f"{unless} || !has(self.schema) || !has({columns}) || "
        f"self.schema.size() * {columns}.size() > {_COMPARISONS_MAX} || "
        f"{names}.all(names, {columns}.all(k, {is_declared}))",
        "spec.schema has no such column",
        field=field,
        found=f"{names}.map(names, {columns}.filter(k, !{is_declared})[0])[0]",
    )


def store_fault(location: str, store_ref: str | None) -> Iterator[tuple[str, str]]:
    """What STORE_RULE refuses in a parsed spec."""
    if location.startswith(_AT_A_SERVER) and store_ref is None:
        yield "storeRef", STORE_RULE.message


STORE_RULE = CelRule(
    f"has(self.storeRef) || !has(self.location) || !({_IS_REMOTE.format('self.location')})",
    "is required for a location in a store such as s3://: name a LakeStore",
    field="storeRef",
)
TABLE_VERSIONS_TEXT = ", ".join(map(str, TABLE_VERSIONS))

TABLE_RULES = (
    CelRule(
        f"!has(self.tableVersion) || self.tableVersion in [{TABLE_VERSIONS_TEXT}]",
        f"must be one of {TABLE_VERSIONS_TEXT}",
        field="tableVersion",
    ),
    CelRule(
        "self.format != 'Hudi' || (has(self.recordKey) && self.recordKey.size() > 0)",
        "is required: the columns that identify a row",
        field="recordKey",
    ),
    STORE_RULE,
    CelRule(
        "has(self.storeRef) || !has(self.ingest) || self.ingest.all(i, "
        f"has(i.source.storeRef) || !has(i.source.path) || !({_LANDS_REMOTE}))",
        "the source path of an ingest is in a store such as s3://: give the ingest's source or the "
        "table a storeRef that names a LakeStore",
        field="ingest",
    ),
    CelRule(
        "!has(self.ingest) || !has(self.location) || self.ingest.all(i, "
        f"!has(i.source.path) || "
        f"!{_LANDING}.startsWith({_LOCATION}) && !{_LOCATION}.startsWith({_LANDING}))",
        "a source path and the table's location overlap; keep them apart",
        field="ingest",
    ),
    CelRule(
        "!has(self.ingest) || self.ingest.all(i, !has(i.source.credentials) || self.ingest.all(j, "
        "!has(j.source.credentials) || "
        "i.source.credentials.secretName == j.source.credentials.secretName))",
        ONE_SOURCE_SECRET,
        field="ingest",
    ),
    CelRule(
        f"!has(self.properties) || !('{EVENT_TIME[0]}' in self.properties) || "
        f"self.properties['{EVENT_TIME[0]}'] != '{EVENT_TIME[1]}' || "
        "(has(self.ordering) && self.ordering.size() > 0)",
        f"is required for {EVENT_TIME[0]}: {EVENT_TIME[1]}",
        field="ordering",
    ),
    _distinct("recordKey"),
    _distinct("partitionBy"),
    _distinct("ordering"),
    _declared("recordKey"),
    # Terms of an Iceberg table are taken apart by the operator.
    _declared("partitionBy", unless="self.format == 'Iceberg'"),
    _declared("ordering"),
    _declared("services.clustering.sortBy", owner="self.services.clustering"),
    CelRule(
        "self.format == 'Iceberg' || !has(self.rerun) || self.rerun.all(name, "
        f"name in {list(SERVICE_NAMES)} || "
        "(has(self.ingest) && self.ingest.exists(i, i.name == name)))",
        f"allowed: {', '.join(SERVICE_NAMES)} and the names of ingests",
        field="rerun",
    ),
    CelRule(
        "self.format != 'Iceberg' || !has(self.rerun) || self.rerun.all(name, "
        f"name in {list(ICEBERG_SERVICE_NAMES)} || "
        "(has(self.ingest) && self.ingest.exists(i, i.name == name)))",
        f"allowed: {', '.join(ICEBERG_SERVICE_NAMES)} and the names of ingests",
        field="rerun",
    ),
    CelRule(
        "!has(self.resync) || self.resync.all(name, "
        "has(self.ingest) && self.ingest.exists(i, i.name == name))",
        "has the names of ingests",
        field="resync",
    ),
    CelRule(
        "!has(self.properties) || self.properties.all(name, "
        "name.startsWith('hoodie.') || name.startsWith('tideline.'))",
        "only hoodie.* and tideline.* properties are passed on",
        field="properties",
    ),
    no_credentials_in("properties"),
)
