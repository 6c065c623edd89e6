"""Services by name: one spelling each."""

from __future__ import annotations

from pathlib import Path

import pytest

import tideline.hudi.services as folder
from tideline.errors import ConfigError
from tideline.hudi.services.registry import all_services, service_named
from tideline.hudi.services.service import TableService

NO_SERVICES = {"savepoint", "restore"}
"""Folders of what happens only when a person asks for it."""


@pytest.mark.parametrize("service", all_services(), ids=str)
def test_a_service_is_known_by_its_name(service: TableService) -> None:
    assert service_named(service.name) is service
    assert service_named(f" {service.name.upper().replace('_', '-')} ") is service


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"there are rollback, cleaning, .*partition_ttl"):
        service_named("vacuum")


def test_every_service_has_a_folder_of_its_name() -> None:
    (root,) = map(Path, folder.__path__)
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert folders - NO_SERVICES == {service.name for service in all_services()}
    assert all((root / service.name / "service.py").exists() for service in all_services())
