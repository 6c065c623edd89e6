"""The log of a Postgres server behind a slot: what it says.

1. Changes are looked at without being taken: they stay until the slot moves. Each reading begins
   where the slot is.
2. Whole transactions come, in the order of their commits.
3. A slot that several tables share is read by one after another, in turns. A turn ends where the
   log is read: nothing is written to the lake meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.postgres.ahead import wait_for_slot
from tideline.ingest.sources.postgres.connection import IN_USE, OfSlot, connected, is_code
from tideline.ingest.sources.postgres.look import in_turn
from tideline.ingest.sources.postgres.lsn import lsn_text
from tideline.ingest.sources.postgres.sql import literal, number_of, quoted
from tideline.ingest.sources.postgres.turns import turn_at

_TURN_S = 300.0
"""How long a table of a shared slot waits until it may read."""


def read_log(
    source: OfSlot, until: int, *, oid: int | None = None, messages_max: int | None = None
) -> closing[Generator[bytes, None, None]]:
    """Messages of whole transactions behind the slot, up to a position, or until there are so many.
    With a table's number changes of others are left out. The turn ends with the context. Raises
    StorageUnavailableError, ConfigError."""
    return closing(_messages(source, until, oid, messages_max))


def _messages(
    source: OfSlot, until: int, oid: int | None, messages_max: int | None
) -> Generator[bytes, None, None]:
    with connected(source) as connection:
        publication = literal(quoted(source.publication))
        call = (
            f"pg_logical_slot_peek_binary_changes({literal(source.slot)}, "
            f"{literal(lsn_text(until))}, {messages_max or 'null'}, 'proto_version', '1', "
            f"'publication_names', {publication})"
        )
        # Inserts, updates and deletes begin with the table's number.
        own = "true"
        if oid is not None:
            own = f"get_byte(data, 0) not in (68, 73, 85) or substr(data, 2, 4) = {number_of(oid)}"
        statement = f"copy (select data from {call} where {own}) to stdout (format binary)"
        ends_s = time.monotonic() + _TURN_S
        while True:
            try:
                with turn_at(source, connection, ends_s - time.monotonic()):
                    wait_for_slot(source, connection)
                    with connection.cursor().copy(statement.encode()) as copy:
                        copy.set_types(["bytea"])
                        for (message,) in copy.rows():
                            yield message
                return
            except Exception as error:
                # Then nothing was read yet.
                if oid is None or not is_code(error, IN_USE):
                    raise
                if time.monotonic() > ends_s:
                    raise StorageUnavailableError(in_turn(source.slot), path=source.uri) from error
