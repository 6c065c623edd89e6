"""Answers of a catalog with odd values, or odd bytes, anywhere in them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tideline.errors import TidelineError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.table_operations import Committed, Conflicted, Unknown
from tideline.storage.named_places import SETTING
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import KINDS, TOKEN, HostileCatalog, fuzzed
from tideline.testing.in_time import in_time
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables
from tideline.iceberg.table.catalog_table import CatalogTable

SEEDS = range(24)
PEAK_BYTES_MAX = 64 * 1024 * 1024


def use(catalog: HostileCatalog) -> Committed | Conflicted | Unknown:
    """Open it, list it, load its table, and commit to that. Raises TidelineError."""
    access = CatalogAccess(Author.RESOURCE)
    opened = open_catalog(
        "lake", {"uri": catalog.url}, credentials={"token": TOKEN}, timeout_s=5.0, access=access
    )
    list_tables(opened)
    table = CatalogTable(opened, "shop.orders", clock=FakeClock(), access=access)
    base = table.load()
    outcome = table.commit(base, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Committed | Conflicted | Unknown)
    return outcome


@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_answer_is_an_error_that_says_so(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time, in little memory, and never another error than ours; to a commit it is no error,
    for that may stand."""
    monkeypatch.setenv(SETTING, f"file://{tmp_path}")
    refused = 0
    tracemalloc.start()
    try:
        with HostileCatalog(f"file://{tmp_path}/orders") as catalog:
            for seed in SEEDS:
                catalog.alter(kind, fuzzed(seed))
                try:
                    refused += isinstance(in_time(lambda: use(catalog)), Unknown)
                except TidelineError as error:
                    refused += 1
                    assert TOKEN not in str(error), seed
                    assert "\n" not in str(error), seed
                    assert len(str(error)) < 2_000, seed
                except Exception as error:
                    pytest.fail(f"seed {seed}: {error!r}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX
    # Requests for a token are made with a credential alone.
    assert refused > len(SEEDS) // 4 or kind == "token"
