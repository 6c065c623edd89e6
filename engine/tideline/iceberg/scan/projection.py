"""From a filter over rows to one over partitions: inclusive projection (spec, "Scan Planning").

The projected filter holds for every partition that may have a row for which the filter holds. What
a transform cannot decide is left out, which only keeps more partitions:

- `identity` keeps every predicate;
- `bucket` keeps equality, by the bucket of the value;
- `truncate` and the time transforms keep order, so a bound becomes the bound's own image;
- every transform keeps null and only null as null, but `void`, which forgets everything.
"""

from __future__ import annotations

import decimal
from typing import Any

from tideline.formats.filter import Operator
from tideline.iceberg.metadata.field_type import Decimal, PrimitiveType
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from tideline.iceberg.scan.bound_filter import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    BoundFilter,
    BoundPredicate,
    all_of,
    any_of,
)
from tideline.iceberg.scan.literal_value import INTEGER_BITS, WIDE
from tideline.iceberg.scan.partition_value import partition_value
from tideline.iceberg.scan.wrapped_truncate import number_images, wrapped_values

_TIME_TRANSFORMS = frozenset({"year", "month", "day", "hour"})
_GRID_TYPES = frozenset(
    {
        *("int", "long", "date", "time"),
        *("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
    }
)


def project(condition: BoundFilter, spec: PartitionSpec) -> BoundFilter:
    """The filter over partition tuples of `spec`; a reference is a position in the tuple."""
    match condition:
        case AllOf(parts):
            return all_of(*(project(part, spec) for part in parts))
        case AnyOf(parts):
            return any_of(*(project(part, spec) for part in parts))
        case _:
            found = [
                _project(condition, field, position)
                for position, field in enumerate(spec.fields)
                if field.source_id == condition.reference
            ]
            return all_of(*found)


def _project(predicate: BoundPredicate, field: PartitionField, position: int) -> BoundFilter:
    transform = field.transform
    if not transform.is_known or transform.name == "void":
        return ALWAYS
    type_ = transform.result_type(predicate.type)
    target = _Target(position, type_, field, predicate.type)  # type: ignore[arg-type]
    operator = predicate.operator
    if operator in (Operator.IS_NULL, Operator.NOT_NULL) or transform.name == "identity":
        return target.predicate(operator, predicate.values)
    if operator in (Operator.IS_NAN, Operator.NOT_NAN):
        return target.predicate(Operator.NOT_NULL)
    if operator in (Operator.EQUAL, Operator.IN):
        return target.one_of(predicate.values)
    if transform.name == "bucket":
        return ALWAYS
    if operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH):
        return _project_prefix(predicate, target, transform.width or 0)
    return _project_order(predicate, target)


def _project_order(predicate: BoundPredicate, target: _Target) -> BoundFilter:
    value = predicate.values[0] if predicate.values else None
    match predicate.operator:
        case Operator.LESS:
            return target.at_most(_before(predicate.type, value))
        case Operator.LESS_OR_EQUAL:
            return target.at_most(value)
        case Operator.GREATER:
            return target.at_least(_after(predicate.type, value))
        case Operator.GREATER_OR_EQUAL:
            return target.at_least(value)
    return ALWAYS


def _project_prefix(predicate: BoundPredicate, target: _Target, width: int) -> BoundFilter:
    prefix = predicate.values[0]
    if predicate.operator is Operator.STARTS_WITH:
        return target.predicate(Operator.STARTS_WITH, (prefix[:width],))
    # The cut value begins with the prefix exactly when the whole one does.
    if len(prefix) <= width:
        return target.predicate(Operator.NOT_STARTS_WITH, (prefix,))
    return ALWAYS


class _Target:
    """Makes predicates on one partition value."""

    def __init__(
        self, position: int, type_: PrimitiveType, field: PartitionField, source: PrimitiveType
    ) -> None:
        self._position = position
        self._type = type_
        self._transform = field.transform
        self._source = source
        # Early writers rounded times before 1970 up instead of down.
        is_day_of_date = field.transform.name == "day" and str(source) == "date"
        self._tolerates = field.transform.name in _TIME_TRANSFORMS and not is_day_of_date
        is_cut = field.transform.name == "truncate" and str(source) in INTEGER_BITS
        self._cut_width = field.transform.width if is_cut else None

    def predicate(self, operator: Operator, values: tuple[Any, ...] = ()) -> BoundFilter:
        return BoundPredicate(self._position, self._type, operator, values)

    def at_most(self, value: Any) -> BoundFilter:
        if self._cut_width:
            return self._cut_at_most(value, self._cut_width)
        image = self._image(value)
        if self._tolerates and image < 0:
            image += 1
        return self.predicate(Operator.LESS_OR_EQUAL, (image,))

    def at_least(self, value: Any) -> BoundFilter:
        if self._cut_width:
            if wrapped_values(self._source, self._cut_width) is None:
                return ALWAYS
            # What has wrapped around is above all others.
            least = value - value % self._cut_width
            return self.predicate(Operator.GREATER_OR_EQUAL, (least,))
        return self.predicate(Operator.GREATER_OR_EQUAL, (self._image(value),))

    def one_of(self, values: tuple[Any, ...]) -> BoundFilter:
        images = [image for value in values for image in self._images(value)]
        if self._tolerates:
            images += [image + 1 for image in images if image < 0]
        distinct = tuple(dict.fromkeys(images))
        if not distinct:
            return NEVER
        operator = Operator.EQUAL if len(distinct) == 1 else Operator.IN
        return self.predicate(operator, distinct)

    def _cut_at_most(self, value: int, width: int) -> BoundFilter:
        wrapped = wrapped_values(self._source, width)
        if wrapped is None:
            return ALWAYS
        below = self.predicate(Operator.LESS_OR_EQUAL, (value - value % width,))
        images = (item.image for item in wrapped if item.first <= value)
        return any_of(below, *(self.predicate(Operator.EQUAL, (image,)) for image in images))

    def _images(self, value: Any) -> list[Any]:
        if self._cut_width:
            return number_images(self._source, value, self._cut_width)
        return [self._image(value)]

    def _image(self, value: Any) -> Any:
        return partition_value(self._transform, self._source, value)


def _before(type_: PrimitiveType, value: Any) -> Any:
    """The greatest value that is less, where values lie on a grid; else the value itself."""
    return _moved(type_, value, -1)


def _after(type_: PrimitiveType, value: Any) -> Any:
    return _moved(type_, value, 1)


def _moved(type_: PrimitiveType, value: Any, units: int) -> Any:
    if isinstance(type_, Decimal):
        return WIDE.add(value, decimal.Decimal(units).scaleb(-type_.scale))
    return value + units if str(type_) in _GRID_TYPES else value
