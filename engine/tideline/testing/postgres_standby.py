"""A real standby of a server of Postgres, which tests promote."""

from __future__ import annotations

import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tideline.testing.postgres_server import SYSTEM_USER, PostgresServer

_ANSWER_S = 60.0


class PostgresStandby(PostgresServer):
    """It follows a primary, over a connection, until it is promoted."""

    def __init__(self, folder: Path, primary: PostgresServer) -> None:
        super().__init__(folder, primary_conninfo=primary.uri())
        self._primary = primary

    def __enter__(self) -> PostgresStandby:
        self._folder.chmod(0o755)
        if os.getuid() == 0:
            owner = pwd.getpwnam(SYSTEM_USER)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        self._primary.copy_disk().rename(self._data)
        for name in ("postmaster.pid", "postmaster.opts"):
            (self._data / name).unlink(missing_ok=True)
        (self._data / "standby.signal").touch()
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(self._settings)
        self.start()
        return self

    def wait_for_all(self) -> None:
        """Until it has what the primary has written."""
        with psycopg.connect(self._primary.uri(), autocommit=True) as connection:
            (wanted,) = connection.execute("select pg_current_wal_flush_lsn()").fetchone() or ("",)
        self._wait("select pg_last_wal_replay_lsn() >= %s::pg_lsn", wanted)

    def promote(self) -> None:
        """It is a primary from now on."""
        self._wait("select pg_promote()")
        self._wait("select not pg_is_in_recovery()")

    def _wait(self, question: str, *given: str) -> None:
        deadline_s = time.monotonic() + _ANSWER_S
        with psycopg.connect(self.uri(), autocommit=True) as connection:
            while connection.execute(question.encode(), given).fetchone() != (True,):
                assert time.monotonic() < deadline_s, question
                time.sleep(0.1)


@contextmanager
def standby_of(primary: PostgresServer) -> Iterator[PostgresStandby]:
    """One that follows; the primary was restarted for it."""
    with (
        tempfile.TemporaryDirectory(prefix="tideline-standby-") as folder,
        PostgresStandby(Path(folder), primary) as standby,
    ):
        yield standby
