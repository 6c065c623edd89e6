"""Changes of how new files are filed and sorted; files that are there stay as they are.

Partition fields are known by their ids. In versions 2 and 3 a field that comes back has the id that
it had; in version 1, where ids count by position, a removed field leaves a void one in its place.

Source: Iceberg's specification, "Partition Evolution", and what Iceberg's `UpdatePartitionSpec`
does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.iceberg.evolution.column_tree import place_of
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.metadata.partition_spec import PartitionField, Transform
from tideline.iceberg.metadata.sort_order import SortField
from tideline.iceberg.services.rewrite_data_files.sort_terms import SortTerm, parse_sort_order

_TIMES = ("year", "month", "day", "hour")
_VOID = Transform("void")


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """`term` is such as `region`, `day(ts)` or `bucket(16, id)`; the field's name follows from it
    where none is given."""

    term: str
    name: str | None = None

    def __str__(self) -> str:
        return f"partition by {self.term}" + (f" as {self.name}" if self.name else "")

    def apply(self, draft: Draft) -> Draft:
        source_id, transform = _resolved(draft, _partition_term(self.term))
        twin = _twin(draft.partition_fields, source_id, transform)
        if twin is not None:
            message = f"the table is partitioned by it already, as {twin.name}"
            raise ConfigError(message, table=draft.table, value=self.term)
        old = _of_the_past(draft, source_id, transform, self.name)
        if old is not None:
            field, last_id = old, draft.last_partition_id
        else:
            last_id = draft.last_partition_id + 1
            name = self.name or _field_name(draft, source_id, transform)
            field = PartitionField(source_id, last_id, name, transform)
        fields = _without_name(draft.partition_fields, field.name)
        _refuse_time(draft, field, self.term)
        _check_name(draft, fields, field)
        return replace(draft, partition_fields=(*fields, field), last_partition_id=last_id)


@dataclass(frozen=True, slots=True)
class RemovePartitionField:
    """`given` is the field's name, or its term."""

    given: str

    def __str__(self) -> str:
        return f"partition by {self.given} no more"

    def apply(self, draft: Draft) -> Draft:
        found = _named(draft, self.given)
        if draft.format_version > 1:
            left = tuple(field for field in draft.partition_fields if field != found)
        else:
            left = _replaced(draft.partition_fields, found, replace(found, transform=_VOID))
        return replace(draft, partition_fields=left)


@dataclass(frozen=True, slots=True)
class RenamePartitionField:
    """The field keeps its id: files that are there are found by the new name."""

    name: str
    new_name: str

    def __str__(self) -> str:
        return f"rename partition field {self.name} to {self.new_name}"

    def apply(self, draft: Draft) -> Draft:
        found = _named(draft, self.name)
        changed = replace(found, name=self.new_name)
        fields = _without_name(draft.partition_fields, self.new_name)
        _check_name(draft, (field for field in fields if field != found), changed)
        return replace(draft, partition_fields=_replaced(fields, found, changed))


@dataclass(frozen=True, slots=True)
class SetSortOrder:
    """`order` is such as `day(ts), id DESC NULLS LAST`; empty: rows have no order."""

    order: str

    def __str__(self) -> str:
        return f"sort by {self.order}" if self.order.strip() else "sort by nothing"

    def apply(self, draft: Draft) -> Draft:
        is_curve, terms = parse_sort_order(self.order)
        if is_curve:
            message = "a table is not kept in z-order; a rewrite may sort by one"
            raise ConfigError(message, table=draft.table, value=self.order)
        fields = tuple(
            SortField(*_resolved(draft, term), term.is_descending, term.nulls_first)
            for term in terms
        )
        return replace(draft, sort_fields=fields)


def _partition_term(text: str) -> SortTerm:
    is_curve, terms = parse_sort_order(text)
    if is_curve or len(terms) != 1 or terms[0] != SortTerm(terms[0].column, terms[0].transform):
        message = "a partition field is such as region, day(ts) or bucket(16, id)"
        raise ConfigError(message, value=text)
    return terms[0]


def _resolved(draft: Draft, term: SortTerm) -> tuple[int, Transform]:
    """The column's id and the transform. Raises ConfigError for one that it cannot have."""
    what = f"{term.transform} of {term.column}"
    place = place_of(draft, term.column, what)
    transform = Transform.parse(term.transform)
    if transform.lacks_width:
        message = f"{transform.name} takes a number: {transform.name}(16, {term.column})"
        raise ConfigError(message, table=draft.table, value=term.column)
    if not transform.is_known:
        raise ConfigError("there is no such transform", table=draft.table, value=term.transform)
    if place.is_repeated or not transform.takes(place.field.type):
        kind = str(place.field.type) if not place.is_repeated else "what is in a list or map"
        message = f"{transform} is not taken of {term.column}, which is {kind}"
        raise ConfigError(message, table=draft.table, value=term.column)
    return place.field.field_id, transform


def _twin(
    fields: Iterable[PartitionField], source_id: int, transform: Transform
) -> PartitionField | None:
    for field in fields:
        if field.source_id == source_id and field.transform == transform:
            return field
    return None


def _of_the_past(
    draft: Draft, source_id: int, transform: Transform, name: str | None
) -> PartitionField | None:
    if draft.format_version < 2:
        return None
    known = [field for spec in draft.base.partition_specs for field in spec.fields]
    return _twin(
        (field for field in known if name is None or field.name == name), source_id, transform
    )


def _field_name(draft: Draft, source_id: int, transform: Transform) -> str:
    """As Iceberg names the fields of specs that change."""
    column = draft.schema.name_of(source_id) or ""
    match transform.name:
        case "identity":
            return column
        case "bucket" | "truncate":
            return f"{column}_{transform.short_name}_{transform.width}"
    return f"{column}_{transform.short_name}"


def _refuse_time(draft: Draft, added: PartitionField, term: str) -> None:
    """Two new fields of one time say the same twice, as Iceberg refuses in one change."""
    old = {field.field_id for field in draft.base.spec().fields}
    for field in draft.partition_fields:
        is_new_time = field.field_id not in old and field.transform.name in _TIMES
        if is_new_time and field.source_id == added.source_id and added.transform.name in _TIMES:
            message = f"partition field {field.name} is added of the same time: one is enough"
            raise ConfigError(message, table=draft.table, value=term)


def _without_name(fields: Iterable[PartitionField], name: str) -> tuple[PartitionField, ...]:
    """A void field gives its name up for another one."""
    return tuple(
        replace(field, name=f"{name}_{field.field_id}")
        if field.name == name and field.transform == _VOID
        else field
        for field in fields
    )


def _check_name(draft: Draft, others: Iterable[PartitionField], field: PartitionField) -> None:
    if not field.name:
        raise ConfigError("a partition field has a name", table=draft.table)
    if any(other.name == field.name for other in others):
        message = "the table has a partition field of this name already"
        raise ConfigError(message, table=draft.table, value=field.name)
    column = draft.schema.find(field.name)
    is_own = column is not None and column.field_id == field.source_id
    if column is not None and not (is_own and field.transform.name in ("identity", "void")):
        message = "a partition field cannot have the name of a column that it is not equal to"
        raise ConfigError(message, table=draft.table, value=field.name)


def _named(draft: Draft, given: str) -> PartitionField:
    fields = [field for field in draft.partition_fields if field.transform != _VOID]
    for field in fields:
        if field.name == given:
            return field
    if "(" in given:
        found = _twin(fields, *_resolved(draft, _partition_term(given)))
        if found is not None:
            return found
    known = ", ".join(field.name for field in fields) or "none"
    message = f"the table has no such partition field; its fields are {known}"
    raise ConfigError(message, table=draft.table, value=given)


def _replaced(
    fields: tuple[PartitionField, ...], old: PartitionField, new: PartitionField
) -> tuple[PartitionField, ...]:
    return tuple(new if field == old else field for field in fields)
