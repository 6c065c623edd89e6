"""Who may set which property of a catalog, and the values that are taken of whom."""

from __future__ import annotations

import pytest

from tideline.trust.author import Author
from tideline.trust.catalog_properties import RULES, admitted, secrets_in
from tideline.trust.foreign_words import LENGTH_MAX, quoted
from tideline.trust.server_address import ServerAddress, is_plain_url, is_same_place
from tideline.trust.sql_address import resource_sql_address

TAKEN = {
    "prefix": ["ws/one", "a", "ws%20one", "/ws/"],
    "namespace-separator": ["%1F", ".", "%2E"],
    "rest-page-size": ["1", "99999"],
    "oauth2-server-uri": ["https://tokens.example:8443/realms/a/token"],
    "token-expires-in-ms": ["1", "3600000"],
    "token-exchange-enabled": ["true", "False"],
    "ugi": ["trips", "trips:hadoop", "trips@LAKE:a:b"],
    "lock-check-retries": ["4", "0.5"],
}
REFUSED: dict[str, list[object]] = {
    "prefix": ["..", "a/../b", "%2e%2e/a", "a%2f..%2fb", "a?b", "a#b", "a//b", "a\\b", "", "a\n",
               "x" * 20_000, 7.5, None, ["a"], {"a": "b"}],
    "namespace-separator": ["/", "%2F", "ab", "", "%3F", "%00"],
    "rest-page-size": ["0", "-1", "1e9", "100000", "x"],
    "oauth2-server-uri": ["file:///etc/passwd", "http://user:pass@host/", "http://host/?a=b",
                          "ftp://host", "http://", "http://host:port/", "http://ho st/"],
    "token-expires-in-ms": ["0", "-1", "1e9", "soon", "1" * 20],
    "token-exchange-enabled": ["no", "", "1"],
    "ugi": [":hadoop", "a b", "a:" * 40, "x" * 200],
    "lock-check-retries": ["-1", "1e9", "1" * 20],
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_values_are_checked_by_what_the_property_means(name: str) -> None:
    for value in TAKEN[name]:
        assert admitted({name: value}, Author.RESOURCE).properties == {name: value}
    for refused in REFUSED[name]:
        assert admitted({name: refused}, Author.RESOURCE).ignored == (name,), refused


@pytest.mark.parametrize("name", RULES)
def test_only_those_who_are_trusted_enough_set_a_property(name: str) -> None:
    value = {"type": "rest", "prefix": "a", "namespace-separator": ".", "rest-page-size": "5",
             "oauth2-server-uri": "http://a/b", "glue.endpoint": "http://a",
             "lock-check-min-wait-time": "0.1", "lock-check-max-wait-time": "60",
             "lock-check-retries": "4", "token-expires-in-ms": "60000",
             }.get(name, "true")  # fmt: skip
    for author in Author:
        is_taken = name in admitted({name: value}, author).properties
        assert is_taken == (author >= RULES[name].least)


def test_a_table_sets_nothing() -> None:
    assert all(rule.least > Author.TABLE for rule in RULES.values())


def test_secrets_are_found_at_any_depth_and_in_parts() -> None:
    given = {
        "credential": "id-of-it:the-secret",
        "auth": {"type": "basic", "basic": {"username": "u", "password": "deep-password"}},
        "header.Authorization": "Bearer of-a-header",
        "uri": "http://host",
    }
    found = set(secrets_in(given))
    assert {"the-secret", "deep-password", "of-a-header", "id-of-it:the-secret"} <= found
    assert "http://host" not in found


def test_addresses_are_compared_by_server_and_path() -> None:
    assert is_same_place("http://A.example:80/x/", "HTTP://a.example/x")
    assert is_same_place("postgresql://me:pw@db/lake", "postgresql://db:5432/lake")
    for other in ("https://a.example/x", "http://a.example:81/x", "http://b.example/x",
                  "http://a.example/y", "http://a.example@b.example/x"):  # fmt: skip
        assert not is_same_place("http://a.example/x", other)
    assert is_same_place("thrift://a.example,thrift://b.example:9084",
                         "thrift://A.example:9083, thrift://b.example:9084")  # fmt: skip
    for other in ("thrift://a.example", "thrift://b.example:9084,thrift://a.example"):
        assert not is_same_place("thrift://a.example,thrift://b.example:9084", other)
    assert str(ServerAddress.of("thrift://a.example:9084,thrift://b.example")).endswith(":9084")
    assert not is_same_place("sqlite:////a/b.db", "sqlite:////a/c.db")
    assert str(ServerAddress.of("http://u:p@[::1]:8080/a?b")) == "http://[::1]:8080"
    assert not is_plain_url("http://host\\@other/")


def test_an_address_of_a_database_is_made_safe() -> None:
    made = resource_sql_address(
        "postgresql+psycopg://me:p%40w@db.example:5432/lake?sslmode=require"
    )
    assert made.startswith("postgresql+psycopg://me:p%40w@db.example:5432/lake?")
    assert "gssencmode=disable" in made and "sslmode=require" in made
    assert "connect_timeout=20" in made


def test_words_of_a_server_are_one_short_line() -> None:
    said = quoted("a\x1b[31m\nb\r\n\tc\0" + "x" * 100_000)
    assert said.startswith("a [31m b c x")
    assert len(said) <= LENGTH_MAX + 3
    assert said.isprintable()
