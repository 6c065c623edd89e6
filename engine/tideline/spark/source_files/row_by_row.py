"""Whether SQL makes the same rows of a row of the source whenever it runs, and whatever other rows
run with it.

Only then what a table should have follows from the records of its source: how these were divided
into commits, and when, is not known afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from tideline.spark.source_files.landed_rows import SOURCE_VIEW

_OF_ROWS = frozenset(
    (
        *("Project", "Filter", "SubqueryAlias", "Generate", "Expand", "Sort", "ResolvedHint"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
    )
)
_CONSTANT = frozenset(("LocalRelation", "OneRowRelation", "Range"))
_MOMENTS = frozenset(
    (
        *("CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp", "CurrentTime"),
        *("CurrentUser", "CurrentDatabase", "CurrentCatalog", "SparkVersion"),
    )
)
_SUBQUERIES = frozenset(("ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"))
_SAME_EACH_TIME = frozenset(("InputFileName",))
"""Spark does not call it deterministic, and it is of the row."""
_BATCH_WORDS = {
    "Aggregate": "an aggregation",
    "Window": "a window function",
    "Distinct": "distinct",
    "Deduplicate": "distinct",
    "GlobalLimit": "limit",
    "LocalLimit": "limit",
    "Offset": "offset",
    "Sample": "a sample",
    "Intersect": "intersect",
    "Except": "except",
}
_KEEPS_ROWS_OF = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftOuter": ("left",),
    "LeftSemi": ("left",),
    "LeftAnti": ("left",),
    "RightOuter": ("right",),
}
"""By the type of a join: which side may be the source, so that each of its rows is met alone."""


def why_not_row_by_row(rows: DataFrame, source: DataFrame) -> str | None:
    """What keeps rows that SQL made of those of the source, by its view or of the frame, from being
    the same each time; None where nothing does."""
    try:
        if not _Plan(_analyzed(source)).is_of_source(_analyzed(rows)):
            return "its rows are not of the source"
    except _BatchError as error:
        return str(error)
    return None


class _BatchError(Exception):
    """What a query has that depends on the batch, or on when it runs."""


@dataclass(slots=True)
class _Plan:
    """The analyzed plan of a query over rows whose plan is that of the `source`. `ctes` are its
    named subqueries, whether they have rows of the source."""

    source: Any
    ctes: dict[int, bool] = field(default_factory=dict)

    def is_of_source(self, plan: Any) -> bool:
        """Whether rows of a part of the plan are made of the source's; else they are constant."""
        kind = _kind(plan)
        if kind == "View" and plan.isTempView() and _name(plan) == SOURCE_VIEW:
            return True
        if plan.equals(self.source):
            return True
        if kind in ("View", "LogicalRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"):
            raise _BatchError("it reads another table, which may have changed since")
        if kind in _CONSTANT:
            return False
        if kind == "CTERelationRef":
            return self.ctes[plan.cteId()]
        if kind == "WithCTE":
            for definition in _items(plan.cteDefs()):
                self.ctes[definition.id()] = self.is_of_source(definition.child())
            return self.is_of_source(plan.plan())
        self._require_same_values(plan)
        below = [self.is_of_source(child) for child in _items(plan.children())]
        if kind == "Join":
            return self._joined(plan, *below)
        if kind == "Union" and any(below) and not all(below):
            raise _BatchError("rows that are not of the source come with every commit")
        if any(below) and kind not in (*_OF_ROWS, "Union"):
            raise _BatchError(f"{_BATCH_WORDS.get(kind, kind)} is over the rows of a commit")
        if not below:
            raise _BatchError(f"it reads {kind}, which may be another one each time")
        return any(below)

    def _joined(self, plan: Any, left: bool, right: bool) -> bool:
        if left and right:
            raise _BatchError("rows of a commit are joined with each other")
        kept = _KEEPS_ROWS_OF.get(_kind(plan.joinType()).removesuffix("$"), ())
        if (left and "left" not in kept) or (right and "right" not in kept):
            raise _BatchError("rows that are not of the source come with every commit")
        return left or right

    def _require_same_values(self, plan: Any) -> None:
        for expression in _items(plan.expressions()):
            for part in _parts(expression):
                self._require_same_value(part)

    def _require_same_value(self, part: Any) -> None:
        kind = _kind(part)
        if kind in _MOMENTS:
            raise _BatchError(f"{part.prettyName()}() says something else each time")
        is_own = not part.deterministic() and all(
            child.deterministic() for child in _items(part.children())
        )
        if kind in _SUBQUERIES:
            if self.is_of_source(part.plan()):
                raise _BatchError("a subquery is over the rows of a commit")
        elif is_own and kind not in _SAME_EACH_TIME:
            raise _BatchError(f"{part.prettyName()}() is another value each time")


def _analyzed(frame: DataFrame) -> Any:
    # Spark's public API shows no plans but as text.
    of_java: Any = frame
    return of_java._jdf.queryExecution().analyzed()


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _items(expression.children()):
        yield from _parts(child)


def _items(found: Any) -> list[Any]:
    """Those of a sequence of Scala."""
    return [found.apply(number) for number in range(found.size())]


def _kind(found: Any) -> str:
    return str(found.getClass().getSimpleName())


def _name(view: Any) -> str:
    return str(view.desc().identifier().table())
