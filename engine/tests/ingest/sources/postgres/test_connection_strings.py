"""Connection strings are read as libpq reads them, and nothing of this machine is."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.wire.address import Address, Host, SslMode, read_address

WELL_FORMED = (
    "postgresql://user:pass@host:5433/db",
    "postgres://user@host/db?sslmode=require&application_name=x",
    "postgresql://u%40x:p%3A%2F%25@host/d%20b",
    "postgresql://u:p@[2001:db8::1]:6000/db",
    "postgresql://u:p@one:1,two:2,three/db",
    "postgresql://u:p@one,two/db?target_session_attrs=read-write",
    "postgresql://u:p@host?dbname=other&port=7",
    "postgresql://u:p@x@host/db",
    "postgresql://u:p?q@host/db",
    "postgresql://u:p@host/db?ssl=true",
    "postgresql://u:@host/",
    "host=h user=u password='a b\\'c\\\\' dbname=d",
    "host = h  user=u\n password=a\\ b\\'c port=5433",
    "host=one,two port=1,2 user=u password=''",
    "host=one,two port=9 user=u options='-c geqo=off'",
    "host=h hostaddr=10.0.0.1 user=u",
    "host=h user=u user=v",
)


@pytest.mark.parametrize("text", WELL_FORMED)
def test_they_are_read_as_libpq_reads_them(text: str) -> None:
    conninfo = pytest.importorskip("psycopg.conninfo")
    wanted = conninfo.conninfo_to_dict(text)
    found = read_address(text, has_authorities=False)
    assert found.user == wanted["user"]
    assert found.password == wanted.get("password", "")
    assert found.database == (wanted.get("dbname") or wanted["user"])
    assert found.mode.value == wanted.get("sslmode", "prefer")
    assert found.options == wanted.get("options", "")
    names = str(wanted["host"]).split(",")
    ports = str(wanted.get("port") or "5432").split(",")
    ports = ports * len(names) if len(ports) == 1 else ports
    assert [host.name for host in found.hosts] == names
    assert [host.port for host in found.hosts] == [int(port or 5432) for port in ports]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host=h user=u sslrootcert=/etc/ssl/ca.pem", "sslrootcert names .* as POSTGRES_CA"),
        (
            "postgresql://u@h/d?sslcert=a&sslkey=b",
            "sslcert names .* as POSTGRES_CLIENT_C",
        ),
        ("host=h user=u sslkey=/k", "sslkey names"),
        ("host=h user=u passfile=/x/.pgpass", "passfile names"),
        ("service=mine user=u", "service names"),
        ("host=h user=u servicefile=/x", "servicefile names"),
        ("host=h user=u sslkeylogfile=/tmp/x", "sslkeylogfile names"),
        ("host=h user=u sslcrl=/x", "sslcrl names"),
        ("host=/var/run/postgresql user=u", "a socket of this machine"),
        ("postgresql://u@%2Fvar%2Frun/db", "a socket of this machine"),
        ("host=@abstract user=u", "a socket of this machine"),
        ("user=u", "it has no host"),
        ("postgresql:///db?user=u", "it has no host"),
        ("host=h,, user=u", "it has no host"),
        ("host=h", "it has no user"),
        ("host=h user=u replication=database", "does not take the option replication"),
        ("host=h user=u require_auth=scram-sha-256", "does not take the option require_auth"),
        ("host=h user=u sslpassword=secret-word", "does not take the option sslpassword"),
        ("host=h user=u channel_binding=require", "channel_binding may be disable or prefer"),
        ("host=h user=u target_session_attrs=standby", "target_session_attrs may be"),
        ("host=h user=u sslmode=perhaps", "sslmode is none of"),
        ("host=h user=u sslrootcert=system sslmode=require", "is for sslmode=verify-full"),
        ("host=h user=u port=12a", "a port is no number"),
        ("host=h user=u port=999999", "a port is no number"),
        ("host=a,b port=1,2,3 user=u", "are not as many"),
        (f"host={'a,' * 99}b user=u", "are not as many, or more than 8"),
        ("postgresql://u@[::1/db", "its hosts cannot be read"),
        ("postgresql://u@h/%zz", "percent sign"),
        ("postgresql://u@h/a%00b", "percent sign"),
        ("postgresql://u@h/a%ff", "not UTF-8"),
        ("postgresql://u@h/d?a=b=c", "not name=value"),
        ("host=h user='u", "neither a URI nor"),
        ("a secret word", "neither a URI nor"),
        ("host=h user=u " * 999, "too long"),
    ],
)
def test_what_is_of_this_machine_or_not_known_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_address(text, has_authorities=False)
    assert "secret" not in str(caught.value)


def test_variables_of_the_process_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "USER", "PASSWORD", "SSLMODE", "SERVICE", "DATABASE", "PORT", "OPTIONS"):
        monkeypatch.setenv(f"PG{name}", "of-the-operator")
    found = read_address("host=h user=u", has_authorities=False)
    assert found == Address((Host("h", "h", 5432),), "u", "u")
    assert "of-the-operator" not in f"{found!r}"


def test_the_safest_mode_is_the_default_with_authorities() -> None:
    given = read_address("host=h user=u", has_authorities=True)
    assert given.mode is SslMode.VERIFY_FULL
    stated = read_address("host=h user=u sslmode=require", has_authorities=True)
    assert stated.mode is SslMode.REQUIRE
    system = read_address("host=h user=u sslrootcert=system", has_authorities=False)
    assert (system.mode, system.trusts_system) == (SslMode.VERIFY_FULL, True)
