"""A real server of Postgres on the loopback interface, for tests.

    python -m tideline.testing.postgres_server start    run one until interrupted, print its URI

It is the one that the machine has: Debian's package `postgresql`, or what PATH finds. It refuses to
run as root: then it runs as the user `postgres`. Connections need a password.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest

from tideline.testing.free_port import free_port
from tideline.testing.server_process import ServerProcess

PASSWORD = "only-for-tests"
_USER = "tideline"
SYSTEM_USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = """\
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
wal_level = {wal_level}
max_wal_senders = 8
max_replication_slots = 16
shared_buffers = 32MB
max_wal_size = 64MB
min_wal_size = 32MB
max_slot_wal_keep_size = 256MB
"""
NO_CHECKPOINTS = {"checkpoint_timeout": "1h", "max_wal_size": "2GB"}
"""Settings of a server that makes none unasked: they are when slots are given up."""


def programs() -> Path | None:
    """The folder of the server's programs, None where there are none."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return None if path is None else Path(path).resolve().parent


class PostgresServer:
    """One server, and what tests do to it."""

    def __init__(self, folder: Path, wal_level: str = "logical", **settings: str) -> None:
        self._folder, self._data = folder, folder / "data"
        self.port = free_port()
        self._settings = _SETTINGS.format(port=self.port, folder=folder, wal_level=wal_level)
        # The last of a name counts.
        self._settings += "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        self._process = ServerProcess(
            "the server",
            lambda: _command("postgres", "-D", str(self._data)),
            folder / "log",
            self._answers,
        )

    def __enter__(self) -> Self:
        self._folder.chmod(0o755)
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if os.getuid() == 0:
            owner = pwd.getpwnam(SYSTEM_USER)
            for path in (self._folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        command = _command(
            *("initdb", "-D", str(self._data), "-U", _USER, "--no-sync"),
            *("-A", "scram-sha-256", "--pwfile", str(password), "--encoding", "UTF8"),
        )
        subprocess.run(command, check=True, cwd="/", capture_output=True)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(self._settings)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; what it has stored stays from one start to the next."""
        self._process.start()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill(lambda _: os.kill(self._postmaster(), signal.SIGQUIT))

    def copy_disk(self) -> Path:
        """A copy of all that it has stored, as after a crash; it runs on."""
        self.kill()
        copy = Path(tempfile.mkdtemp(dir=self._folder, prefix="copy-")) / "data"
        subprocess.run(["cp", "-a", str(self._data), str(copy)], check=True)
        self.start()
        return copy

    def restore_disk(self, copy: Path) -> None:
        """Start it with what it had stored when the copy was made."""
        self.kill()
        shutil.rmtree(self._data)
        copy.rename(self._data)
        self.start()

    def _postmaster(self) -> int:
        """The process of the server, which another may have started as its user."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.uri(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def uri(self, database: str = "postgres", user: str = _USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"


def _command(program: str, *options: str) -> list[str]:
    folder = programs()
    assert folder is not None
    command = [str(folder / program), *options]
    return ["runuser", "-u", SYSTEM_USER, "--", *command] if os.getuid() == 0 else command


class PostgresDatabase:
    """A database of its own for one test, in UTF-8 or another encoding."""

    def __init__(self, server: PostgresServer, encoding: str = "UTF8") -> None:
        self.server, self._encoding = server, encoding
        self.name = f"test_{secrets.token_hex(4)}"

    @property
    def slot(self) -> str:
        """Slots are the server's: their names are not to be another test's."""
        return f"{self.name}_slot"

    @property
    def uri(self) -> str:
        return self.server.uri(self.name)

    def __enter__(self) -> Self:
        with self._connect("postgres") as connection:
            connection.execute(
                f"create database {self.name} template template0 encoding '{self._encoding}'"
                " lc_collate 'C' lc_ctype 'C'".encode()
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._connect("postgres") as connection:
            # A session that looks at a slot holds it, and another one would follow.
            connection.execute(f"alter database {self.name} allow_connections false".encode())
            connection.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                (self.name,),
            )
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = %s",
                (self.name,),
            )
            connection.execute(f"drop database {self.name} with (force)".encode())

    def connect(self) -> psycopg.Connection:
        """Where each statement commits."""
        return self._connect(self.name)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Each in a transaction of its own; the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection:
            for statement in statements:
                found = connection.execute(statement.encode())
                rows = found.fetchall() if found.description else []
        return rows

    def _connect(self, database: str) -> psycopg.Connection:
        uri = self.server.uri(database)
        return psycopg.connect(uri, autocommit=True, client_encoding="utf8")


def fill_log(database: PostgresDatabase, *mb: int) -> None:
    """Write so much log for no table, with checkpoints between: a slot that has read one may let
    go of what is before it."""
    for number, size in enumerate(mb):
        if number:
            database.execute("checkpoint")
        for _ in range(size // 10):
            database.execute("select pg_logical_emit_message(false, 'x', repeat('x', 10000000))")


@contextmanager
def own_server(**settings: str) -> Iterator[PostgresServer]:
    """A server for one test, with settings of its own."""
    require_postgres()
    # The server's user has no way into the folders of pytest.
    with (
        tempfile.TemporaryDirectory(prefix="tideline-postgres-") as folder,
        PostgresServer(Path(folder), **settings) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole test session."""
    with own_server() as server:
        yield server


@pytest.fixture
def postgres(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresDatabase]:
    """A database, which this process finds by POSTGRES_URI."""
    with PostgresDatabase(postgres_server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        yield database


def require_postgres() -> None:
    """For fixtures: without a server their tests are skipped, saying so; under CI they fail."""
    if programs() is None:
        assert not os.environ.get("CI"), "there is no initdb: install postgresql"
        pytest.skip("there is no initdb: install postgresql")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tideline.testing.postgres_server")
    parser.add_argument("what", choices=("start",))
    parser.parse_args()
    if programs() is None:
        sys.exit("there is no initdb: install postgresql")
    with tempfile.TemporaryDirectory(prefix="tideline-postgres-") as folder:
        server = PostgresServer(Path(folder))
        with server:
            print(server.uri(), flush=True)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            try:
                signal.pause()
            except KeyboardInterrupt:
                sys.exit(0)


if __name__ == "__main__":
    main()
