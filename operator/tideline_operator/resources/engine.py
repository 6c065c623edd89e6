"""Which engine moves the rows of a table."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from tideline.ingest.executors.spark_conf import (
    KUBERNETES_CONF,
    KUBERNETES_PREFIX,
    NOT_OF_PODS,
    refused_conf,
)
from tideline_operator.resources.field import CelRule, described, no_credentials_in


class SmallWork(Enum):
    """What does work whose rows one process can hold."""

    IN_PROCESS = "InProcess"
    SPARK = "Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engines that move rows: the driver's own process, and Spark with executors."""

    small: SmallWork | None = described(
        "What does small work, by the bytes it moves: InProcess, the driver alone without Spark, "
        "or Spark. Left out, the table's own tideline.engine.small decides, or InProcess.",
        default=None,
    )
    spark_conf: Mapping[str, str] = described(
        "Spark configuration of drivers and executors, over the operator's own defaults. What "
        "other fields or Tideline itself set is refused. `tideline run` takes Spark's own "
        "defaults.",
        default_factory=dict,
        length_max=4096,
        items_max=100,
        may_be_empty=True,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.sparkConf) || self.sparkConf.all(name, name.startsWith('spark.'))",
            "names of Spark's configuration begin with spark.",
            field="sparkConf",
        ),
        CelRule(
            "!has(self.sparkConf) || self.sparkConf.all(name, "
            f"!name.startsWith('{KUBERNETES_PREFIX}') || name in {sorted(KUBERNETES_CONF)})",
            NOT_OF_PODS,
            field="sparkConf",
        ),
        no_credentials_in("sparkConf"),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Names that cannot be given."""
        for name in self.spark_conf:
            if (reason := refused_conf(name)) is not None:
                yield f"sparkConf.{name}", f"cannot be given here: {reason}"
