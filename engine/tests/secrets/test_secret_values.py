"""Known secret values are masked, however they are spelled; nothing else is."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline import secret_values
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.secret_values import (
    LENGTH_MIN,
    MASK,
    forgotten,
    is_secret_name,
    masked,
    masked_json,
    note_environment,
    note_secrets,
    note_settings,
)

TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
# Anything that can be in an environment variable; asterisks would be found in the mask itself.
VALUES = st.text(
    st.characters(codec="utf-8", exclude_characters="*\0"), min_size=LENGTH_MIN, max_size=60
).filter(lambda text: len(text.strip()) >= LENGTH_MIN)
WORDS = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    with forgotten():
        yield


@given(VALUES, WORDS, WORDS)
def test_a_known_value_is_in_no_spelling_left(value: str, before: str, after: str) -> None:
    secret = value.strip()
    with forgotten():
        note_secrets([value])
        spellings = (
            secret,
            base64.b64encode(secret.encode()).decode(),
            base64.urlsafe_b64encode(secret.encode()).decode(),
            quote(secret, safe=""),
            quote(secret),
            quote_plus(secret),
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            json.dumps(json.dumps(secret)[1:-1])[1:-1],
            repr(secret)[1:-1],
            escape(secret),
        )
        for spelling in spellings:
            for text in (spelling, f"{before} {spelling}{after}", f"{before}{spelling} {spelling}"):
                assert spelling not in masked(text)
                assert secret not in masked(text)


@given(st.binary(max_size=7), st.binary(min_size=12, max_size=50), st.binary(max_size=7))
def test_a_value_within_encoded_bytes_cannot_be_decoded(
    before: bytes, value: bytes, after: bytes
) -> None:
    secret = value.hex()
    with forgotten():
        note_secrets([secret])
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = masked(encode(before + secret.encode() + after).decode())
            assert MASK in text
            left = text.replace(MASK, "")
            # At most a neighbour's bytes and those that share a character with it.
            assert len(left) <= 4 * (len(before) + len(after) + 4) // 3 + 8


@given(st.lists(VALUES, min_size=1, max_size=6), WORDS)
def test_values_that_overlap_leave_nothing(values: list[str], between: str) -> None:
    with forgotten():
        note_secrets(values)
        text = masked(between.join(values) + "".join(values))
        assert not [value for value in values if value.strip() in text]


@given(VALUES, st.integers(0, 3))
def test_no_part_of_an_error_shows_a_value(value: str, field: int) -> None:
    secret = value.strip()
    with forgotten():
        note_secrets([value])
        texts = ["refused", "t", "p", "v"]
        texts[field] = f"the server says: {secret}!"
        message, table, path, named = texts
        error = TidelineError(message, table=table, path=path, value=named)
        seen = (str(error), *map(str, error.args), error.message, str(error.path), str(error.value))
        assert not [text for text in seen if secret in text]
        assert MASK in str(error)


def test_an_error_masks_what_is_no_text_and_what_is_set_later() -> None:
    note_secrets([TOKEN])
    error = StorageUnavailableError("refused", value=ValueError(TOKEN))
    assert TOKEN not in str(error)
    later = ConfigError("refused")
    later.path = f"s3://x:{TOKEN}@host"
    assert str(later) == f"refused [path=s3://x:{MASK}@host]"


def test_a_value_that_was_cut_is_recognised_by_its_beginning() -> None:
    note_secrets([TOKEN])
    for length in (12, 13, 30, len(TOKEN) - 1):
        assert masked(f"refused: {TOKEN[:length]}...") == f"refused: {MASK}"
    assert TOKEN[:11] in masked(f"refused: {TOKEN[:11]}...")


def test_other_texts_stay_as_they_are() -> None:
    note_secrets([TOKEN, "short", "abc", "", None, "     "])
    for text in ("", "short", "abc", "a short text about the table lake", TOKEN[1:]):
        assert masked(text) == text


def test_only_what_is_known_is_masked() -> None:
    assert masked(TOKEN) == TOKEN


def test_a_header_is_known_by_its_token_alone() -> None:
    login = base64.b64encode(b"admin:a-good-password").decode()
    note_secrets([f"Bearer {TOKEN}", f"Basic {login}"])
    assert masked(f"<{TOKEN}>") == f"<{MASK}>"
    assert masked("the password a-good-password is wrong") == f"the password {MASK} is wrong"


def test_a_key_of_several_lines_is_known_by_each() -> None:
    lines = [secrets.token_hex(32) for _ in range(3)]
    note_secrets(["\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))])
    assert masked(f"line 2: {lines[1]}") == f"line 2: {MASK}"
    assert "BEGIN" in masked("-----BEGIN PRIVATE KEY----- is what it begins with")


def test_json_stays_json() -> None:
    tricky = '","b":"'
    note_secrets([tricky, TOKEN, "123456"])
    document = {"a": "x", "b": [TOKEN, 123456, None, True], TOKEN: f"is {TOKEN}"}
    text = json.dumps(masked_json(document))
    assert json.loads(text) == {"a": "x", "b": [MASK, 123456, None, True], MASK: f"is {MASK}"}
    assert json.loads(json.dumps(masked_json({"a": f'{tricky}"'}))) == {"a": f'{MASK}"'}


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "PYICEBERG_CATALOG__LAKE__CREDENTIAL",
        "PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "fs.s3a.secret.key",
        "header.Authorization",
        "client-secret",
    ],
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "oauth2-server-uri",
        "PYICEBERG_CATALOG__LAKE__TOKEN_EXPIRES_IN_MS",
        "token-exchange-enabled",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GIT_AUTHOR_EMAIL",
        "AWS_ROLE_ARN",
        "KEYBOARD_LAYOUT",
        "HOME",
        "PWD",
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert not is_secret_name(name)


def test_an_environment_is_searched_for_secrets() -> None:
    note_environment(
        {
            "AWS_ACCESS_KEY_ID": "minioadmin",
            "AWS_SECRET_ACCESS_KEY": "secret-number-1",
            "DATABASE_URL": "postgresql://lake:p%40ssw0rd-2@db/x",
            "TIDELINE_SPARK_CONF": '{"spark.hadoop.fs.s3a.secret.key": "secret-number-3"}',
            "LAKE__CREDENTIAL": "client:secret-number-4",
            "BROKEN": "{not json",
            "HOME": "/srv/somebody",
        }
    )
    for secret in ("secret-number-1", "p%40ssw0rd-2", "p@ssw0rd-2", "secret-number-3",
                   "secret-number-4"):  # fmt: skip
        assert masked(f"<{secret}>") == f"<{MASK}>", secret
    for word in ("minioadmin", "/srv/somebody", "client", "postgresql://lake"):
        assert masked(word) == word


def test_settings_within_settings_are_searched() -> None:
    note_settings({"catalog": {"lake": {"token": "secret-number-5", "uri": "http://lake:8181"}}})
    assert masked("secret-number-5 http://lake:8181") == f"{MASK} http://lake:8181"


def test_the_values_noted_least_recently_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_values, "_VALUES_MAX", 20)
    note_secrets(["kept-in-use", "seldom-used"])
    for number in range(200):
        note_secrets([f"temporary-{number:05}", "kept-in-use"])
    assert masked("kept-in-use seldom-used") == f"{MASK} seldom-used"
    assert masked("temporary-00199") == MASK
    assert masked("temporary-00001") == "temporary-00001"


def test_a_value_that_is_noted_again_is_not_among_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secret_values, "_VALUES_MAX", 20)
    note_secrets(["kept-in-use"])
    for number in range(15):
        note_secrets([f"temporary-{number:05}"])
    note_secrets(["kept-in-use"])
    for number in range(15, 20):
        note_secrets([f"temporary-{number:05}"])
    assert masked("kept-in-use") == MASK
    assert masked("temporary-00000") == "temporary-00000"


def test_values_that_share_characters_are_masked_as_one() -> None:
    note_secrets(["abcdefgh12", "gh12345678"])
    assert masked("is abcdefgh12345678.") == f"is {MASK}."


def test_ten_thousand_values_cost_a_message_little() -> None:
    note_secrets(secrets.token_urlsafe(30) for _ in range(10_000))
    message = "the store refused s3://bucket/table/part-0001.parquet: AccessDenied; " * 5
    began_s = time.perf_counter()
    for _ in range(200):
        masked(message)
    # It takes 30 microseconds; an alternation of all spellings takes a thousand times as long.
    assert (time.perf_counter() - began_s) / 200 < 0.003


@pytest.mark.parametrize("between", ["\n", ""])
def test_one_large_value_pushes_no_other_out(between: str) -> None:
    note_secrets(["secret-of-a-neighbour"])
    began_s = time.process_time()
    large = between.join(f"abcdef{number:010}" for number in range(60_000))
    note_secrets([large])
    assert time.process_time() - began_s < 1
    assert masked("secret-of-a-neighbour") == MASK
    assert masked(large[:40]).startswith(MASK)


def test_a_text_made_of_a_value_within_itself_takes_no_time() -> None:
    note_secrets(["x***yy!"])
    assert masked("x" * 100_000 + "x***yy!" + "yy!" * 100_000) == "***"


def test_what_a_server_makes_up_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_values, "_VALUES_MAX", 20)
    with forgotten():
        note_secrets(["own-secret"])
        for number in range(100):
            note_secrets([f"made-up-{number:03}"], are_passing=True)
        assert masked("own-secret made-up-099 made-up-000") == f"{MASK} {MASK} made-up-000"
        note_secrets(["made-up-099"])
        for number in range(100):
            note_secrets([f"other-{number:03}"], are_passing=True)
        assert masked("own-secret made-up-099") == f"{MASK} {MASK}"


def test_one_value_of_many_lines_lets_no_other_be_forgotten() -> None:
    note_secrets(["hunter2-hunter2"])
    note_secrets(["\n".join(f"line {number:020}" for number in range(20_000))])
    assert masked("hunter2-hunter2") == "***"
