"""How a write changes the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.wording import counted

_TYPE_LENGTH_MAX = 100
_NAMED_MAX = 20


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Names are dotted, types as Arrow spells them.

    An added column comes with its type, a widened one with its old and its new type; those of a
    table's first write are all added. `untyped` are new ones without a value, which are left out.
    """

    added: tuple[tuple[str, str], ...] = ()
    widened: tuple[tuple[str, str, str], ...] = ()
    untyped: tuple[str, ...] = ()

    @property
    def added_texts(self) -> tuple[str, ...]:
        """Each added column in words; of many the first."""
        return _named([f"{name} {_shortened(kind)}" for name, kind in self.added])

    @property
    def widened_texts(self) -> tuple[str, ...]:
        """The same for widened columns."""
        return _named([f"{name} {old} to {new}" for name, old, new in self.widened])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of columns that are left out."""
        if not self.untyped:
            return ()
        what = counted(len(self.untyped), "new column")
        waits = "waits" if len(self.untyped) == 1 else "wait"
        return (f"{what} without a value {waits} for a type: {', '.join(_named(self.untyped))}",)


NO_CHANGE = SchemaChange()


def _named(texts: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    more = len(texts) - _NAMED_MAX
    return (*texts[:_NAMED_MAX], f"{more:,} more") if more > 0 else tuple(texts)


def _shortened(kind: str) -> str:
    return kind if len(kind) <= _TYPE_LENGTH_MAX else f"{kind[: _TYPE_LENGTH_MAX - 3]}..."
