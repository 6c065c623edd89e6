"""How far each ingest has read its source, kept in the table's own commits.

The checkpoint travels in the commit that holds the rows, so both become visible together: a killed
run neither loses nor repeats anything. It is a value: a position of the source's kind, and what
holds for sources of every kind. Several ingests share a table: each commit carries all checkpoints
on (archiving takes old commits away), and `generation` distinguishes a later one from a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX, CARRIER_KEY, carried_key
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.sources.kinds import kind_named, kind_of_stored, stored_kind
from tideline.ingest.sources.source import Declared, Position

CHECKPOINT_PREFIX = CARRIED_PREFIX
INGEST_KEY = CARRIER_KEY
"""Names the ingest whose rows a commit holds."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """See the module's text.

    `drained` is the number of the `once` run that emptied the source. `columns` are the names and
    Spark types that untyped rows were read with, where the first batch decides them for good.
    `address` is that of the source, empty in checkpoints of before it was kept. `took_over` is the
    ingest's former name. `look_after` is where a look that is not whole may begin. `again` is the
    number of the last copy that was asked for of a table that had rows.
    """

    generation: int
    position: Position
    drained: int | None = None
    columns: tuple[tuple[str, str], ...] = ()
    address: str = ""
    took_over: str = ""
    look_after: str = ""
    again: int = 0

    def __str__(self) -> str:
        return f"generation {self.generation} up to {self.position}"

    def encode(self) -> str:
        """The JSON text in a commit's extra metadata."""
        content = {
            "version": _VERSION,
            **stored_kind(self.position.kind),
            "generation": self.generation,
            **self.position.stored(),
            "drained": self.drained,
            "columns": [list(column) for column in self.columns],
            "prefix": self.address,
            "tookOver": self.took_over,
            "namesFrom": self.look_after,
            **({"copyNumber": self.again} if self.again else {}),
        }
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str, *, name: str, instant: object = None) -> Checkpoint:
        """Raises CorruptTableError naming ingest and instant when `text` is no checkpoint."""
        try:
            content = parse_json(text, what="checkpoint")
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            return cls(
                generation=int(content["generation"]),
                position=kind_of_stored(content).position.from_stored(content),
                drained=None if content["drained"] is None else int(content["drained"]),
                columns=tuple((str(name), str(kind)) for name, kind in content["columns"]),
                address=str(content.get("prefix", "")),
                took_over=str(content.get("tookOver", "")),
                look_after=str(content.get("namesFrom", "")),
                again=int(content.get("copyNumber", 0)),
            )
        except (ConfigError, CorruptTableError, *PARSER_FAULTS) as error:
            raise CorruptTableError(
                f"the checkpoint of ingest {name!r} cannot be read: {error}",
                instant=instant,
                value=text[:200],
            ) from error


def read_checkpoints(
    timeline: ActiveTimeline,
    read_extra_metadata: Callable[[Instant], Mapping[str, str]],
    names: Iterable[str],
    read_archived: Callable[[], Mapping[str, str]] = dict,
) -> dict[str, Checkpoint]:
    """The current checkpoints of the ingests `names`; those that never committed are left out.

    A commit carries on what its writer saw when it began, which another may have overtaken. So
    for every ingest the search goes back to a commit of that very ingest, and the highest
    generation met counts. Of those without one in the active timeline, `read_archived` gives what
    archived commits said, by key. Raises CorruptTableError.
    """
    searched = set(names)
    found: dict[str, Checkpoint] = {}
    for instant in reversed(timeline.completed().of(*COMMIT_ACTIONS).instants):
        if not searched:
            break
        extra = read_extra_metadata(instant)
        keep_newest(found, _decoded(extra, searched, instant.time))
        searched.discard(extra.get(INGEST_KEY, ""))
    if searched:
        keep_newest(found, _decoded(read_archived(), searched, "archived"))
    return found


def read_newest_checkpoints(
    timeline: ActiveTimeline,
    read_extra_metadata: Callable[[Instant], Mapping[str, str]],
    read_archived: Callable[[], Mapping[str, str]] = dict,
) -> dict[str, Checkpoint]:
    """The checkpoints of all ingests, by name, that the newest commit with any carries.

    Other ingests may have continued since. Raises CorruptTableError.
    """
    for instant in reversed(timeline.completed().of(*COMMIT_ACTIONS).instants):
        found = _decode_all(read_extra_metadata(instant), instant.time)
        if found:
            return found
    return _decode_all(read_archived(), "archived")


def with_others(
    checkpoints: Mapping[str, Checkpoint],
    names: tuple[str, str],
    source: Declared,
    timeline: ActiveTimeline,
    read_extra_metadata: Callable[[Instant], Mapping[str, str]],
) -> dict[str, Checkpoint]:
    """The checkpoints, where another program may have fed the table from the source of this ingest,
    whose names are its own and its former one: before it or since, then it continues behind the
    newest commit of that one.

    Raises CorruptTableError.
    """
    found, kind = dict(checkpoints), kind_named(source.kind)
    if kind.position_of_others is None:
        return found
    for instant in reversed(timeline.completed().of(*COMMIT_ACTIONS).instants):
        extra = read_extra_metadata(instant)
        ingest = extra.get(INGEST_KEY)
        if ingest in names:
            return found
        position = None if ingest else kind.position_of_others(source, extra)
        if position is not None:
            own = newest_of(found, *names) or Checkpoint(0, position)
            return {**found, names[0]: replace(own, position=position)}
    return found


def newest_of(
    checkpoints: Mapping[str, Checkpoint], name: str, former_name: str = ""
) -> Checkpoint | None:
    """The checkpoint of an ingest that may have had another name before."""
    found = [checkpoints[known] for known in (name, former_name) if known in checkpoints]
    return max(found, key=lambda checkpoint: checkpoint.generation, default=None)


def keep_newest(found: dict[str, Checkpoint], others: Mapping[str, Checkpoint]) -> None:
    """Put those into `found` that are of a higher generation, or of ingests it lacks."""
    for name, checkpoint in others.items():
        if name not in found or checkpoint.generation > found[name].generation:
            found[name] = checkpoint


def checkpoint_metadata(checkpoints: Mapping[str, Checkpoint]) -> dict[str, str]:
    """The checkpoints as entries of a commit's extra metadata."""
    return {carried_key(name): value.encode() for name, value in checkpoints.items()}


def _decode_all(extra: Mapping[str, str], instant: object) -> dict[str, Checkpoint]:
    kept = (key for key in extra if key.startswith(CHECKPOINT_PREFIX))
    return _decoded(extra, (key.removeprefix(CHECKPOINT_PREFIX) for key in kept), instant)


def _decoded(
    extra: Mapping[str, str], names: Iterable[str], instant: object
) -> dict[str, Checkpoint]:
    """The checkpoints of these ingests that a commit's extra metadata has."""
    texts = ((name, extra.get(carried_key(name))) for name in names)
    return {
        name: Checkpoint.decode(text, name=name, instant=instant)
        for name, text in texts
        if text is not None
    }
