"""Signing in by SCRAM: the example of the RFC, and servers that do not follow it."""

from __future__ import annotations

import re

import pytest

from tideline.ingest.sources.wire.scram import Scram, ScramError

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
PROOF = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERDICT = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def started(password: str = "pencil") -> Scram:
    return Scram("sha256", "user", password, NONCE)


def test_the_example_of_the_rfc() -> None:
    scram = started()
    assert scram.first() == f"n,,n=user,r={NONCE}".encode()
    assert scram.final(CHALLENGE).endswith(PROOF)
    scram.check(VERDICT)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    scram = started("pen")
    scram.final(CHALLENGE)
    for verdict in (VERDICT, b"v=", b"", b"v=***", b"\xff"):
        with pytest.raises(ScramError):
            scram.check(verdict)


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (CHALLENGE.replace(b"i=4096", b"i=400000000"), "asks for 400000000 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=0"), "asks for 0 iterations"),
        (CHALLENGE.replace(b"r=rOpr", b"r=aaaa"), "does not continue the client's"),
        (f"r={NONCE},s=W22Z,i=4096".encode(), "does not continue the client's"),
        (CHALLENGE.replace(b"s=W", b"s=*"), "is not as it must be"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_challenges_that_are_refused(challenge: bytes, words: str) -> None:
    with pytest.raises(ScramError, match=re.escape(words)):
        started().final(challenge)


def test_names_with_commas_are_spelled() -> None:
    assert Scram("sha256", "a,b=c", "p", "n").first() == b"n,,n=a=2Cb=3Dc,r=n"
