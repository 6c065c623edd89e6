"""TLS with a real server: what is verified, by looks of the operator and by the client of pods."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.wire.look import look_by

pytest.importorskip("psycopg")

import psycopg

from tideline.ingest.sources.postgres.server import look_at
from tideline.testing.postgres_server import PASSWORD, PostgresServer, require_postgres

pytestmark = pytest.mark.postgres

SOURCE = DeclaredPostgres(table="orders", slot="s", publication="p")
ACCESS = """\
hostssl all certified all cert
hostssl all plain all password
hostssl all old all md5
"""

Look = Callable[[dict[str, str]], PostgresLook]


def directly(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), 3.0)


CLIENTS: dict[str, Look] = {
    "operator": lambda variables: look_by(SOURCE, variables, directly, None),
    "pod": lambda variables: look_at(SOURCE, None, variables),
}


def made(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}", *options),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


class Encrypted:
    """A server that speaks TLS, and the PEM texts of its clients."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        certificate, key = made(folder, "server", "-addext", "subjectAltName=IP:127.0.0.1")
        of_client, key_of_client = made(folder, "certified")
        self.authorities = certificate.read_text()
        self.certificate, self.key = of_client.read_text(), key_of_client.read_text()
        for path in folder.glob("*.*"):
            path.chmod(0o600)
            if os.getuid() == 0:
                os.chown(path, pwd.getpwnam("postgres").pw_uid, -1)
        settings = {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl_ca_file": of_client}
        with psycopg.connect(server.uri(), autocommit=True) as connection:
            for name, path in settings.items():
                connection.execute(f"alter system set {name} = '{path}'".encode())
            connection.execute("alter system set ssl = on")
            connection.execute("create table orders (id bigint primary key)")
            connection.execute("create role certified login")
            connection.execute(f"create role plain login password '{PASSWORD}'".encode())
            connection.execute("set password_encryption = 'md5'")
            connection.execute(f"create role old login password '{PASSWORD}'".encode())
            (access,) = connection.execute("show hba_file").fetchone() or ("",)
            Path(access).write_text(ACCESS + Path(access).read_text())
            connection.execute("select pg_reload_conf()")
        while not self._speaks_tls():
            pass

    def _speaks_tls(self) -> bool:
        try:
            psycopg.connect(f"{self.server.uri()}?sslmode=require").close()
        except psycopg.OperationalError:
            return False
        return True

    def variables(self, options: str = "", user: str = "tideline", **more: str) -> dict[str, str]:
        return {"POSTGRES_URI": f"{self.server.uri(user=user)}?{options}", **more}


@pytest.fixture(scope="module")
def server() -> Iterator[Encrypted]:
    require_postgres()
    with tempfile.TemporaryDirectory(prefix="tideline-postgres-") as folder:
        keys = Path(folder) / "keys"
        keys.mkdir()
        with PostgresServer(Path(folder)) as server:
            yield Encrypted(server, keys)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_is_verified_as_the_mode_says(server: Encrypted, client: str) -> None:
    look, authorities = CLIENTS[client], {"POSTGRES_CA": server.authorities}
    assert look(server.variables("sslmode=require")).exists
    assert look(server.variables(**authorities)).exists
    assert look(server.variables("sslmode=verify-full", **authorities)).exists
    by_name = server.variables(**authorities)
    by_name["POSTGRES_URI"] = by_name["POSTGRES_URI"].replace("127.0.0.1", "localhost")
    with pytest.raises(ConfigError, match="refuses this client"):
        look(by_name)
    by_name["POSTGRES_URI"] += "sslmode=verify-ca"
    assert look(by_name).exists
    with pytest.raises(ConfigError, match="certificate verify failed"):
        look(server.variables(POSTGRES_CA=server.certificate))
    with pytest.raises(ConfigError, match=r"certificate|CERTIFICATE|PEM|no start line"):
        look(server.variables(POSTGRES_CA="none"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_clients_certificate_is_read_from_memory(server: Encrypted, client: str) -> None:
    look = CLIENTS[client]
    own = {"POSTGRES_CLIENT_CERTIFICATE": server.certificate, "POSTGRES_CLIENT_KEY": server.key}
    assert look(server.variables("sslmode=require", "certified", **own)).exists
    with pytest.raises(ConfigError, match="refuses this client"):
        look(server.variables("sslmode=require", "certified"))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("user", ["plain", "old"])
def test_older_ways_of_signing_in_are_for_tls(server: Encrypted, client: str, user: str) -> None:
    look = CLIENTS[client]
    assert look(server.variables("sslmode=require", user)).exists
    with pytest.raises(ConfigError, match="authentication failed"):
        wrong = server.variables("sslmode=require", user)
        look({name: text.replace(PASSWORD, "another-word") for name, text in wrong.items()})


def test_without_authorities_nothing_is_verified_in_vain(server: Encrypted) -> None:
    with pytest.raises(ConfigError, match="give the authorities as POSTGRES_CA"):
        CLIENTS["operator"](server.variables("sslmode=verify-ca"))
    with pytest.raises(ConfigError, match="certificate verify failed"):
        CLIENTS["operator"](server.variables("sslrootcert=system"))
