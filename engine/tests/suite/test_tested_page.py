"""The page that counts the suite has a line for each kind of test, of fault and of peer."""

from __future__ import annotations

from tideline.testing.tested_page import (
    COUNTED,
    PAGE,
    counted,
    fault_classes,
    generated_part,
    kinds_in,
    peers,
)


def test_the_page_is_of_these_kinds() -> None:
    page = generated_part(PAGE.read_text(encoding="utf-8"))
    assert kinds_in(page) == kinds_in(counted(dict.fromkeys(COUNTED, 0))), "run: make tested"


def test_every_peer_has_its_release() -> None:
    assert len(peers()) >= 8
    assert all(any(letter.isdigit() for letter in peer) for peer in peers())


def test_the_faults_are_those_of_the_injectors() -> None:
    found = fault_classes()
    assert len(found) == len(set(found))
    assert "a simulated crash" in found
