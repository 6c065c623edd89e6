"""One commit of several tables of a REST catalog: the server makes all of it or nothing.

The request has the requirements and updates of each table. After every answer but success the
tables are loaded again, as after the commit of one (`catalog_table`):

1. all show their changes: committed;
2. none does, and what one of them requires holds no more, or the server refused: nothing is
   committed;
3. anything else is asked again as often as `commit.status-check.*` says, and is then unknown; so is
   what a server made by halves, against the specification.

A process that dies before the request leaves files that no snapshot lists, after it the commit or
nothing of it. Needs the extra `iceberg`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError as UnreadableAnswer
from pyiceberg.exceptions import ForbiddenError, TooManyRequestsError, UnauthorizedError

from tideline.clock import Clock
from tideline.errors import (
    ConfigError,
    ConflictError,
    StorageUnavailableError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import unmet
from tideline.iceberg.metadata.shown_updates import is_shown, leaves_trace
from tideline.iceberg.table.catalog_opening import CLIENT_FAULTS, words_of
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog
from tideline.iceberg.table.catalog_table import REFUSALS, CatalogTable, status_of
from tideline.iceberg.table.catalog_update import as_requirement, as_update
from tideline.iceberg.table.retry import status_checks
from tideline.iceberg.table.staged_table import StagedChange
from tideline.iceberg.table.table_operations import Conflicted, TableOperations, Unknown
from tideline.trust.foreign_words import quoted

_REFUSED = (400, 404, 405, 406, 409, 422, 501)


def transacting_catalog(
    tables: Sequence[TableOperations],
) -> tuple[BoundedRestCatalog, Sequence[CatalogTable]]:
    """The catalog that commits the tables together, and these. Raises ConfigError for tables of
    several catalogs, UnsupportedTableError for a catalog that does not."""
    kept = [table for table in tables if isinstance(table, CatalogTable)]
    catalogs = [table.catalog for table in kept if isinstance(table.catalog, BoundedRestCatalog)]
    if len(catalogs) < len(tables):
        message = "tables are committed together by a REST catalog that keeps all of them"
        raise ConfigError(message)
    servers = {(catalog.given.get("uri"), catalog.given.get("warehouse")) for catalog in catalogs}
    if len(servers) > 1:
        message = "tables of different catalogs are not committed together"
        raise ConfigError(message, value=", ".join(sorted({c.name for c in catalogs})))
    catalog = catalogs[0]
    if not catalog.commits_tables:
        message = (
            "the catalog commits no tables together: its /v1/config does not list "
            "POST /v1/{prefix}/transactions/commit"
        )
        raise UnsupportedTableError(message, value=catalog.name)
    return catalog, kept


def commit_staged(
    catalog: BoundedRestCatalog, changes: Sequence[StagedChange], *, clock: Clock
) -> Conflicted | Unknown | None:
    """Commit the changes together; None when they are. Raises StorageUnavailableError and
    UnsupportedTableError, then certainly nothing was committed."""
    names = _names(changes)
    try:
        catalog.commit_tables(
            [
                (
                    change.table.identifier,
                    tuple(map(as_requirement, change.requirements)),
                    tuple(as_update(u, change.base.metadata.format_version)
                          for u in change.updates),
                )
                for change in changes
            ]
        )  # fmt: skip
    except (ForbiddenError, UnauthorizedError) as error:
        message = f"the catalog denies access: {quoted(error)}"
        raise StorageUnavailableError(message, value=names) from error
    except TooManyRequestsError as error:
        message = "the catalog had no time for the commit, which did not take place: repeat it"
        raise StorageUnavailableError(message, value=names) from error
    except CLIENT_FAULTS as error:
        return _settle(changes, error, clock)
    return None


def _settle(
    changes: Sequence[StagedChange], error: BaseException, clock: Clock
) -> Conflicted | Unknown | None:
    """What became of a commit that was not reported as done."""
    is_refused = not isinstance(error, UnreadableAnswer) and (
        isinstance(error, REFUSALS) or status_of(error) in _REFUSED
    )
    for _ in status_checks(changes[0].base.metadata.properties).attempts(clock):
        try:
            found = [(change, change.table.load().metadata) for change in changes]
        except ConflictError as replaced:
            return Unknown(replaced.message)
        except TidelineError:
            continue
        shown = [is_shown(metadata, change.updates) for change, metadata in found]
        if all(shown):
            return None
        if any(shown):
            there = [change for change, is_there in zip(changes, shown, strict=True) if is_there]
            return Unknown(f"the catalog has committed {_names(there)} and not the others")
        reasons = (unmet(metadata, change.requirements) for change, metadata in found)
        reason = next((text for text in reasons if text is not None), None)
        if reason is not None and (
            is_refused or all(leaves_trace(change.updates) for change in changes)
        ):
            return Conflicted(reason)
        if is_refused and reason is None and status_of(error) != 409:
            message = f"the catalog rejects the changes: {quoted(error)}"
            raise UnsupportedTableError(message, value=_names(changes)) from error
        if is_refused:
            return Conflicted(quoted(error))
    return Unknown(f"the catalog may have committed: {type(error).__name__}: {words_of(error)}")


def _names(changes: Sequence[StagedChange]) -> str:
    return ", ".join(".".join(change.table.identifier) for change in changes)
