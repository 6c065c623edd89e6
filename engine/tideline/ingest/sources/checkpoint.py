"""Which files of a landing prefix a table has taken in, kept in the table's own commits.

The checkpoint travels in the commit that holds the files' rows, so both become visible together: a
killed run neither loses nor repeats a file. It is a value:

- `watermark`: the latest position (time, path) taken in;
- `taken`: the identities of the files above `floor`, exactly. Times may go backwards: `mv` keeps
  an old one, a multi-part upload carries the time it began. Exact memory makes that harmless;
- `floor`: everything at or below it counts as taken in. It only rises, past the oldest files, when
  more than `TAKEN_MAX` identities would be kept, and stays an hour behind the watermark;
- `settled`: how many files at or below the floor are still there. More of them in a listing mean
  that some arrived late; they cannot be distinguished from the others, so they are reported;
- `names_from`: where names sort by time, a look may leave out the paths up to this one. It stays
  `NAMES_OVERLAP` names behind those taken in, for files that arrive in a slightly other order, and
  before every file that waits. A file that arrives below it later is in a whole listing alone.

Identities of files that have left the landing prefix are dropped, so a checkpoint is never larger
than the listing it is compared with. A listing that is not whole shows nothing of that: no identity
is dropped then, and the floor stays. Several ingests share a table: each commit carries all
checkpoints on (archiving takes old commits away), and `generation` distinguishes a later one from a
copy.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX, CARRIER_KEY, carried_key
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.sources.files.listing import IDENTITY_BYTES, ArrivedFile, FileListing, Position

CHECKPOINT_PREFIX = CARRIED_PREFIX
INGEST_KEY = CARRIER_KEY
"""Names the ingest whose rows a commit holds."""

TAKEN_MAX = 5_000
TAKEN_WITHOUT_LISTING_MAX = 20_000
"""With more identities than these only a whole listing will do: it lets the floor rise."""
NAMES_OVERLAP = 500
"""As many names as leave half a page of a listing to those that are new."""
FLOOR_DISTANCE_MS = 3_600_000
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """See the module's text.

    `drained` is the number of the `once` run that emptied the prefix. `columns` are the names and
    Spark types that text files were read with, where the first batch decides them for good.
    `prefix` is the landing prefix as `landing_prefix` spells it, empty in checkpoints of before it
    was kept. `took_over` is the ingest's former name.
    """

    generation: int
    watermark: Position
    floor: Position | None
    settled: int
    taken: frozenset[str]
    drained: int | None = None
    columns: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    took_over: str = ""
    names_from: str = ""

    def has_taken(self, file: ArrivedFile) -> bool:
        """Whether the file's rows count as in the table already."""
        if self.floor is not None and file.position <= self.floor:
            return True
        return self.remembers(file)

    def remembers(self, file: ArrivedFile) -> bool:
        """Whether it is certain that the file's rows are in the table: no late file below the floor
        can be mistaken for one that was taken in."""
        return file.identity in self.taken

    def late_files(self, landing: FileListing) -> int:
        """How many files came in below the floor since it rose."""
        return max(0, _count_settled(landing, self.floor) - self.settled)

    def __str__(self) -> str:
        return f"generation {self.generation} up to {self.watermark.path}"

    def encode(self) -> str:
        """The JSON text in a commit's extra metadata."""
        taken = b"".join(bytes.fromhex(identity) for identity in sorted(self.taken))
        content = {
            "version": _VERSION,
            "generation": self.generation,
            "watermark": [self.watermark.modified_ms, self.watermark.path],
            "floor": None if self.floor is None else [self.floor.modified_ms, self.floor.path],
            "settled": self.settled,
            "taken": b64encode(taken).decode("ascii"),
            "drained": self.drained,
            "columns": [list(column) for column in self.columns],
            "prefix": self.prefix,
            "tookOver": self.took_over,
            "namesFrom": self.names_from,
        }
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str, *, name: str, instant: object = None) -> Checkpoint:
        """Raises CorruptTableError naming the ingest and the instant when `text` is no checkpoint.
        Raises CorruptTableError naming the ingest and the instant when `text` is no checkpoint."""
        try:
            content = parse_json(text, what="checkpoint")
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            taken = b64decode(content["taken"], validate=True)
            if len(taken) % IDENTITY_BYTES:
                raise ValueError("identities are cut short")
            return cls(
                generation=int(content["generation"]),
                watermark=_position(content["watermark"]),
                floor=None if content["floor"] is None else _position(content["floor"]),
                settled=int(content["settled"]),
                taken=frozenset(
                    taken[start : start + IDENTITY_BYTES].hex()
                    for start in range(0, len(taken), IDENTITY_BYTES)
                ),
                drained=None if content["drained"] is None else int(content["drained"]),
                columns=tuple((str(name), str(kind)) for name, kind in content["columns"]),
                prefix=str(content.get("prefix", "")),
                took_over=str(content.get("tookOver", "")),
                names_from=str(content.get("namesFrom", "")),
            )
        except (CorruptTableError, *PARSER_FAULTS) as error:
            raise CorruptTableError(
                f"the checkpoint of ingest {name!r} cannot be read: {error}",
                instant=instant,
                value=text[:200],
            ) from error


def advance(
    checkpoint: Checkpoint | None,
    landing: FileListing,
    taken: Iterable[ArrivedFile],
    *,
    taken_max: int = TAKEN_MAX,
) -> Checkpoint:
    """The checkpoint after `taken` (never empty) went in, given the landing prefix as it is now."""
    files = tuple(taken)
    newest = max(file.position for file in files)
    start = checkpoint or Checkpoint(0, newest, None, 0, frozenset())
    if landing.is_whole:
        present = {file.identity for file in (*landing.files, *landing.quarantined)}
        settled = min(start.settled, _count_settled(landing, start.floor))
        start = replace(start, settled=settled, taken=start.taken & present)
    grown = replace(
        start,
        generation=start.generation + 1,
        watermark=max(start.watermark, newest),
        taken=start.taken | {file.identity for file in files},
    )
    if landing.is_whole:
        grown = _raise_floor(grown, landing, taken_max)
    return replace(grown, names_from=_names_from(grown, landing))


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
        for name in searched:
            text = extra.get(carried_key(name))
            if text is None:
                continue
            checkpoint = Checkpoint.decode(text, name=name, instant=instant.time)
            if name not in found or checkpoint.generation > found[name].generation:
                found[name] = checkpoint
        searched.discard(extra.get(INGEST_KEY, ""))
    archived = read_archived() if searched else {}
    for name in searched:
        text = archived.get(carried_key(name))
        if text is None:
            continue
        checkpoint = Checkpoint.decode(text, name=name, instant="archived")
        if name not in found or checkpoint.generation > found[name].generation:
            found[name] = checkpoint
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


def checkpoint_metadata(checkpoints: Mapping[str, Checkpoint]) -> dict[str, str]:
    """The checkpoints as entries of a commit's extra metadata."""
    return {carried_key(name): value.encode() for name, value in checkpoints.items()}


def _decode_all(extra: Mapping[str, str], instant: object) -> dict[str, Checkpoint]:
    texts = {
        key.removeprefix(CHECKPOINT_PREFIX): text
        for key, text in extra.items()
        if key.startswith(CHECKPOINT_PREFIX)
    }
    return {
        name: Checkpoint.decode(text, name=name, instant=instant) for name, text in texts.items()
    }


def _raise_floor(checkpoint: Checkpoint, landing: FileListing, taken_max: int) -> Checkpoint:
    """Let the floor pass the oldest files while there are too many identities.

    It never passes a file that is not taken in yet, nor one younger than the distance allows.
    """
    excess = len(checkpoint.taken) - taken_max
    floor, settled, taken = checkpoint.floor, checkpoint.settled, set(checkpoint.taken)
    for file in landing.files:
        if excess <= 0:
            break
        if floor is not None and file.position <= floor:
            continue
        too_young = file.modified_ms > checkpoint.watermark.modified_ms - FLOOR_DISTANCE_MS
        if too_young or file.identity not in taken:
            break
        floor, settled, excess = file.position, settled + 1, excess - 1
        taken.remove(file.identity)
    return replace(checkpoint, floor=floor, settled=settled, taken=frozenset(taken))


def _names_from(checkpoint: Checkpoint, landing: FileListing) -> str:
    """As many names as the overlap before the first file that waits, or before the end."""
    waiting = (file.path for file in landing.files if not checkpoint.has_taken(file))
    first = min(waiting, default=None)
    settled = (file.path for file in (*landing.files, *landing.quarantined))
    names = sorted(path for path in settled if first is None or path < first)
    return names[-NAMES_OVERLAP - 1] if len(names) > NAMES_OVERLAP else landing.after


def _count_settled(landing: FileListing, floor: Position | None) -> int:
    if floor is None:
        return 0
    return sum(1 for file in landing.files if file.position <= floor)


def _position(content: list[object]) -> Position:
    modified_ms, path = content
    return Position(int(str(modified_ms)), str(path))
