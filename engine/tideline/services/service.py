"""What services of both formats are: a name, what they need, and when they run.

Each is one object, in a folder of its own, named on one line of its format's registry
(`tideline.hudi.services`, `tideline.iceberg.services`), whose protocols say what it does.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from tideline.errors import ConfigError
from tideline.wording import nearest


class Concurrency(Enum):
    """What may continue in a table while a service runs; `together` has the rules.

    ANY_ROWS: a write or a service that moves rows. LATER_WRITES: writes that begin once its plan
    stands.
    """

    NONE = "none"
    ANY_ROWS = "any rows"
    LATER_WRITES = "later writes"


class Service(ABC):
    """One table service. It has no state: two objects of one name are equal.

    `name` is its one spelling: in code, on the command line and in JSON.
    """

    name: ClassVar[str]
    table_format: ClassVar[str]
    """Of the tables it is for."""
    moves_rows: ClassVar[bool] = False
    """Whether it needs an engine that reads and writes rows."""
    deletes_files: ClassVar[bool] = False
    """Whether all it does is to delete files, which another table may share."""
    holds_rows: ClassVar[bool] = False
    """Whether it needs memory for rows, though no engine: those of delete files, or keys."""
    concurrency: ClassVar[Concurrency] = Concurrency.NONE
    """What may continue in the table while it runs."""
    refuses_updates: ClassVar[bool] = False
    """Whether its plan may refuse writes that update rows."""
    pause_ms: ClassVar[int | None] = None
    """How long it rests after each run, also one that failed, where its trigger cannot know."""
    leaves_plans: ClassVar[bool] = False
    """Whether a dead run may leave a plan that the next one finishes."""
    follows: ClassVar[frozenset[str]] = frozenset()
    """Services that are run first where they are due as well, whatever each of them saves."""
    whenever_asked: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings over all others for a run that a person asked for: its trigger says yes."""

    @property
    def operation_kind(self) -> str:
        """Its name in operation files, statuses and metrics."""
        return self.name

    def stored_settings(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """The settings of a run as an operation file has them."""
        return {"service": self.operation_kind, "settings": dict(settings)}

    def read_settings(self, content: Mapping[str, Any]) -> dict[str, str]:
        """Settings from an operation file."""
        return {str(key): str(value) for key, value in content["settings"].items()}

    def goes_after(self, other: Service) -> bool:
        """Whether it waits for another service that is due as well."""
        return other.name in self.follows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Service) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<service {self.name}>"


AnyService = TypeVar("AnyService", bound=Service)


def named(text: str | AnyService, services: Iterable[AnyService]) -> AnyService:
    """The service of this name; itself for itself. Raises ConfigError naming the known ones."""
    if not isinstance(text, str):
        return text
    by_name = {service.name: service for service in services}
    wanted = text.strip().lower().replace("-", "_")
    if wanted in by_name:
        return by_name[wanted]
    near = nearest(wanted, by_name)
    guess = f"did you mean {near}? " if near is not None else ""
    raise ConfigError(f"unknown service, {guess}there are {', '.join(by_name)}", value=text)
