"""Count what the suite is made of, and write it into `docs/how-tideline-is-tested.md`.

    python -m tideline.testing.tested_page    (`make tested`)

1. Tests, by what runs them: collected by pytest, each parameter of a test on its own.
2. Fault classes: the fields of the values that say what a fault injector may do.
3. Peers: the releases that the peers' environments are built from.

What stands between the two marks of the page is replaced; all else is written by hand.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from tideline.testing import iceberg_rest_server
from tideline.testing.debezium_connector import DEBEZIUM
from tideline.testing.faulty_store import FaultPlan, LostReply
from tideline.testing.faulty_store_proxy import ProxyFault
from tideline.testing.hudi_utilities import HUDI_UTILITIES
from tideline.testing.kafka_broker import VERSION as KAFKA
from tideline.testing.lance_library import LANCE_REQUIREMENT
from tideline.testing.minio_server import VERSION as MINIO
from tideline.testing.mutants.table import FAULTS
from tideline.testing.peer_environment import (
    HUDI_0_BUNDLE,
    HUDI_BUNDLE,
    HUDI_REQUIREMENTS,
    ICEBERG_REQUIREMENTS,
    ICEBERG_RUNTIME,
)
from tideline.testing.simulator import Hazards
from tideline.testing.stand_in_tables import recipes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-tideline-is-tested.md"
BEGIN, END = "<!-- counted by make tested -->", "<!-- until here -->"

_LONG = frozenset({"slow", "storm"})
_SERVED = frozenset({"spark", "minio", "azurite", "interop", "api_server", "kafka", "postgres"})
_MARKS = "marks of a test: "
# Lines of the page: the folder of the tests, and which marks they must and must not have.
COUNTED: Mapping[str, tuple[str, frozenset[str], frozenset[str]]] = {
    "`make unit`: quick ones with nothing but Python": (
        "",
        frozenset(),
        _LONG | _SERVED | {"rest", "longer"},
    ),
    "`make test` and `make rest`": ("", frozenset(), _LONG),
    "of these `make rest`": ("", frozenset({"rest"}), _LONG),
    "of these on Spark": ("", frozenset({"spark"}), _LONG),
    "of these on a MinIO server": ("", frozenset({"minio"}), _LONG),
    "of these on Azurite": ("", frozenset({"azurite"}), _LONG),
    "of these on a broker of Kafka": ("", frozenset({"kafka"}), _LONG),
    "of these on a server of Postgres": ("", frozenset({"postgres"}), _LONG),
    "of these on a Kubernetes API server": ("", frozenset({"api_server"}), _LONG),
    "of these with other engines": ("", frozenset({"interop"}), _LONG),
    "of these on tables of other makers": ("", frozenset({"fixtures"}), _LONG),
    "`make slow`": ("", frozenset({"slow"}), frozenset({"storm"})),
    "`make storms`": ("", frozenset({"storm"}), frozenset()),
    "`make e2e`: on a real Kubernetes": ("e2e", frozenset(), frozenset()),
    "of these in every CI run": ("e2e", frozenset({"ci"}), frozenset()),
}
NOT_FAULTS = ("among", "lost_reply", "sleep_s_max")


def fault_classes() -> list[str]:
    """What the injectors can do, in words."""
    names = [
        f"a store's {attribute.name}"
        for attribute in fields(FaultPlan)
        if attribute.name not in NOT_FAULTS
    ]
    names += [f"a lost reply, then {lost_reply.name}" for lost_reply in LostReply]
    names += [f"on the wire {fault.name}" for fault in ProxyFault]
    names += [
        f"a simulated {attribute.name}"
        for attribute in fields(Hazards)
        if attribute.name not in NOT_FAULTS
    ]
    return [name.lower().replace("_", " ") for name in names]


def planted_faults() -> int:
    """How many faults `make mutants` plants."""
    return len(FAULTS)


def peers() -> list[str]:
    """Other makers' programs that tests talk to, with their releases."""
    named = [HUDI_BUNDLE, HUDI_0_BUNDLE, HUDI_UTILITIES, ICEBERG_RUNTIME]
    for requirement in sorted({*HUDI_REQUIREMENTS, *ICEBERG_REQUIREMENTS, LANCE_REQUIREMENT}):
        name, _, version = requirement.partition("==")
        if version and "extension" not in name:
            named.append(f"{name.partition('[')[0]} {version}")
    named.append(f"Iceberg's REST catalog {iceberg_rest_server.VERSION}")
    return [*named, f"MinIO {MINIO}", f"Kafka {KAFKA}", f"Debezium {DEBEZIUM}"]


def counted(tests: Mapping[str, int]) -> str:
    """The page's generated part."""
    rows = [f"| {name} | {number:,} |" for name, number in tests.items()]
    classes, known = fault_classes(), peers()
    return "\n".join(
        [
            "| tests | |",
            "|---|--:|",
            *rows,
            f"| faults that `make mutants` plants | {planted_faults()} |",
            f"| tables that Hudi makes for tests | {len(recipes())} |",
            "",
            f"{len(classes)} fault classes: {'; '.join(classes)}.",
            "",
            f"{len(known)} peers: {'; '.join(known)}.",
        ]
    )


def kinds_in(text: str) -> list[str]:
    """A generated part without its numbers of tests: what must agree with this module."""
    return [line.rpartition(" | ")[0] or line for line in text.strip().splitlines()]


def generated_part(page: str) -> str:
    """What stands between the marks."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def pytest_collection_finish(session: pytest.Session) -> None:
    """As a plugin: print the marks of every test."""
    for item in session.items:
        print(_MARKS + ",".join(sorted({mark.name for mark in item.iter_markers()})))


def _marks(*selection: str) -> list[frozenset[str]]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __spec__.name]
    done = subprocess.run(
        [*command, *selection], cwd=PAGE.parents[1], check=True, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARKS)]
    return [frozenset(line.removeprefix(_MARKS).split(",")) for line in lines]


def count_tests() -> dict[str, int]:
    """How many tests each line of the page is about."""
    found = {"": _marks(), "e2e": _marks("-c", "e2e/pytest.ini", "e2e/tests")}
    return {
        name: sum(wanted <= marks and not marks & unwanted for marks in found[folder])
        for name, (folder, wanted, unwanted) in COUNTED.items()
    }


def main() -> int:
    """Count and write."""
    page = PAGE.read_text(encoding="utf-8")
    part = counted(count_tests())
    PAGE.write_text(page.replace(generated_part(page), part), encoding="utf-8")
    print(part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
