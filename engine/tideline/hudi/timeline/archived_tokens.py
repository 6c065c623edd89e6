"""The idempotency tokens of archived commits, remembered so that the archive is read only once.

A commit's token stands in its extra metadata and goes into the archive with it. A reader that
looks for one there keeps, in one object, the tokens found and up to which archive file:

1. List the archive, get what is remembered, read only the archive files that are newer.
2. Keep the newest `TOKENS_MAX` tokens, and note that older ones were dropped.
3. Put what was found back. Died before or after: the same is found and put the next time, for the
   object only repeats what the archive says. Call under the table lock, as writers do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.timeline.archived import ArchivedTimeline, ArchivePosition
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime

TOKEN_KEY = "tideline.token"
"""Names, in a commit's extra metadata, the token its caller gave it."""

TOKENS_PATH = ".hoodie/.aux/tideline-tokens.json"
TOKENS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class ArchivedTokens:
    """Instants of archived commits by token. `has_dropped`: older ones were forgotten."""

    instants: Mapping[str, InstantTime] = field(default_factory=dict)
    has_dropped: bool = False
    position: ArchivePosition = field(default_factory=ArchivePosition)


def read_archived_tokens(
    archived: ArchivedTimeline, *, remembers: bool = False, tokens_max: int = TOKENS_MAX
) -> ArchivedTokens:
    """The tokens of archived commits.

    With `remembers` later calls are cheap; only then anything is written. Raises CorruptTableError
    for an archive that cannot be read.
    """
    files = archived.files()
    if not files:
        return ArchivedTokens()
    known = _load(archived)
    newer = [file for file in files if not known.position.covers(file)]
    if not newer:
        return known
    found = dict(known.instants)
    for file in newer:
        for entry in archived.read(file).entries:
            instant = entry.instant
            if instant.is_completed and instant.action in COMMIT_ACTIONS:
                token = entry.extra_metadata().get(TOKEN_KEY)
                if token:
                    found[token] = instant.time
    newest_first = sorted(found.items(), key=lambda item: item[1], reverse=True)
    now = ArchivedTokens(
        dict(newest_first[:tokens_max]),
        known.has_dropped or len(newest_first) > tokens_max,
        archived.position(files),
    )
    if remembers:
        archived.store.put(TOKENS_PATH, _encode(now))
    return now


def _encode(tokens: ArchivedTokens) -> bytes:
    content = {
        **tokens.position.to_json(),
        "has_dropped": tokens.has_dropped,
        "tokens": {token: str(time) for token, time in tokens.instants.items()},
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _load(archived: ArchivedTimeline) -> ArchivedTokens:
    try:
        content: dict[str, Any] = parse_json(archived.store.get(TOKENS_PATH))
        return ArchivedTokens(
            {str(token): InstantTime(str(time)) for token, time in content["tokens"].items()},
            bool(content["has_dropped"]),
            ArchivePosition.from_json(content),
        )
    except (ObjectNotFoundError, CorruptTableError, UnsupportedTableError, *PARSER_FAULTS):
        # It only repeats the archive, which is then read again.
        return ArchivedTokens()
