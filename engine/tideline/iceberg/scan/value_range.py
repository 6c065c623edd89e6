"""What is known of a column's values in a file, a partition or a manifest, and what it rules out.

All three are described by the same few facts, so one function answers for all: may any of these
values satisfy a predicate? It never says no unless that is certain. As in Iceberg, NaN satisfies no
comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideline.formats.filter import Operator

_COMPARES_NAN_OUT = frozenset(
    {
        *(Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL),
        *(Operator.EQUAL, Operator.IN, Operator.STARTS_WITH, Operator.NOT_STARTS_WITH),
        Operator.NOT_NAN,
    }
)


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Facts about some values; the default is that nothing is known.

    `lower` and `upper` enclose what is neither null nor NaN, None where unknown.
    """

    may_be_null: bool = True
    may_be_set: bool = True
    may_be_nan: bool = True
    is_only_nan: bool = False
    lower: Any = None
    upper: Any = None

    @classmethod
    def of_value(cls, value: Any) -> ValueRange:
        """The one value of a partition."""
        if value is None:
            return cls(may_be_set=False, may_be_nan=False)
        if value != value:
            return cls(may_be_null=False, is_only_nan=True)
        return cls(may_be_null=False, may_be_nan=False, lower=value, upper=value)

    def may_satisfy(self, operator: Operator, values: tuple[Any, ...]) -> bool:
        """Whether some value may satisfy the predicate."""
        if operator is Operator.IS_NULL:
            return self.may_be_null
        if not self.may_be_set:
            return False
        if operator is Operator.IS_NAN:
            return self.may_be_nan
        if self.is_only_nan and operator in _COMPARES_NAN_OUT:
            return False
        return self._may_compare(operator, values)

    def _may_compare(self, operator: Operator, values: tuple[Any, ...]) -> bool:
        match operator:
            case Operator.EQUAL | Operator.IN:
                return any(self._may_equal(value) for value in values)
            case Operator.NOT_EQUAL | Operator.NOT_IN:
                return not (self._is_single and self.lower in values)
            case Operator.LESS:
                return self.lower is None or bool(self.lower < values[0])
            case Operator.LESS_OR_EQUAL:
                return self.lower is None or bool(self.lower <= values[0])
            case Operator.GREATER:
                return self.upper is None or bool(self.upper > values[0])
            case Operator.GREATER_OR_EQUAL:
                return self.upper is None or bool(self.upper >= values[0])
            case Operator.STARTS_WITH:
                return self._may_start_with(values[0])
            case Operator.NOT_STARTS_WITH:
                return not self._surely_starts_with(values[0])
        return True

    @property
    def _is_single(self) -> bool:
        """Whether all that is not null is the same value."""
        return self.lower is not None and not self.may_be_nan and bool(self.lower == self.upper)

    def _may_equal(self, value: Any) -> bool:
        above = self.lower is not None and bool(self.lower > value)
        below = self.upper is not None and bool(self.upper < value)
        return not above and not below

    def _may_start_with(self, prefix: Any) -> bool:
        length = len(prefix)
        above = self.lower is not None and bool(self.lower[:length] > prefix)
        below = self.upper is not None and bool(self.upper[:length] < prefix)
        return not above and not below

    def _surely_starts_with(self, prefix: Any) -> bool:
        if self.lower is None or self.upper is None:
            return False
        return bool(self.lower.startswith(prefix) and self.upper.startswith(prefix))


UNKNOWN = ValueRange()
