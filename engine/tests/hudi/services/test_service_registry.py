"""Services by name: one spelling each, what the release before called them taken as well."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import tideline.hudi.services as folder
from tideline.errors import ConfigError
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.registry import all_services, service_named
from tideline.hudi.services.run_metrics import RunMetrics
from tideline.hudi.services.service import TableService

NO_SERVICES = {"savepoint", "restore"}
"""Folders of what happens only when a person asks for it."""


@pytest.mark.parametrize("service", all_services(), ids=str)
def test_a_service_keeps_its_name_and_has_no_warning(service: TableService) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert service_named(service.name) is service
        assert service_named(f" {service.name.upper().replace('_', '-')} ") is service


@pytest.mark.parametrize(
    ("former", "service"), [("logcompaction", LOG_COMPACTION), ("ttl", PARTITION_TTL)]
)
def test_a_former_name_is_taken_with_a_warning(former: str, service: TableService) -> None:
    with pytest.warns(DeprecationWarning, match=f"is called {service.name}"):
        assert service_named(former) is service


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"there are rollback, cleaning, .*partition_ttl"):
        service_named("vacuum")


def test_every_service_has_a_folder_of_its_name() -> None:
    (root,) = map(Path, folder.__path__)
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert folders - NO_SERVICES == {service.name for service in all_services()}
    assert all((root / service.name / "service.py").exists() for service in all_services())


def test_metrics_that_the_release_before_kept_are_still_known_as_the_services() -> None:
    kept = RunMetrics("logcompaction", bytes_read=5, seconds=1.0).to_extra_metadata()
    found = RunMetrics.from_extra_metadata(kept)
    assert found is not None
    assert found.service in LOG_COMPACTION.names
