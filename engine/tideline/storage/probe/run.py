"""Asking a store whether it keeps its promises.

Some S3 servers accept conditional headers and ignore them; more of them honour every question asked
alone and let two of several concurrent writers win. Both kinds lose commits in silence, so a store
is raced before a table is made there, and `tideline check-store` looks harder.

Everything happens in a directory of its own, which is removed again. A process that dies during the
check leaves it; nothing reads it, and the next check there removes it (`left_behind`).
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tideline.errors import (
    ConfigError,
    InvalidDataError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
)
from tideline.storage.kept_versions import notes_on_versions
from tideline.storage.object_store import ObjectStore, UnsupportedRequestError
from tideline.storage.probe.conditions import (
    counts_every_increment,
    creates_once,
    creates_once_after_a_delete,
    creates_once_in_a_race,
    replaces_nothing_that_is_gone,
    replaces_once_in_a_race,
    replaces_what_matches,
)
from tideline.storage.probe.left_behind import check_folder, remove_left_behind, remove_own
from tideline.storage.probe.race import QUICK, QUICK_AT_A_SERVER, THOROUGH, Arena, Effort
from tideline.storage.probe.report import ProbeOutcome, ProbeResult, StorePromise, StoreReport
from tideline.storage.probe.visibility import (
    keeps_names,
    lists_every_page,
    lists_nothing_that_was_deleted,
    lists_what_was_created,
    reads_what_was_written,
    says_what_is_missing,
    uploads_in_parts,
)

_Check = Callable[[Arena], str | None]

_CHECKS: Mapping[StorePromise, _Check] = {
    StorePromise.READ_AFTER_WRITE: reads_what_was_written,
    StorePromise.MISSING_OBJECT: says_what_is_missing,
    StorePromise.CREATE_ONCE: creates_once,
    StorePromise.CREATE_RACE: creates_once_in_a_race,
    StorePromise.CREATE_RACE_AFTER_DELETE: creates_once_after_a_delete,
    StorePromise.REPLACE_MATCHING: replaces_what_matches,
    StorePromise.REPLACE_MISSING: replaces_nothing_that_is_gone,
    StorePromise.REPLACE_RACE: replaces_once_in_a_race,
    StorePromise.COUNTER: counts_every_increment,
    StorePromise.LIST_AFTER_CREATE: lists_what_was_created,
    StorePromise.LIST_AFTER_DELETE: lists_nothing_that_was_deleted,
    StorePromise.LIST_PAGES: lists_every_page,
    StorePromise.NAMES: keeps_names,
    StorePromise.UPLOAD_IN_PARTS: uploads_in_parts,
}
QUICK_PROMISES = (
    StorePromise.CREATE_ONCE,
    StorePromise.CREATE_RACE,
    StorePromise.REPLACE_MATCHING,
    StorePromise.REPLACE_RACE,
    StorePromise.LIST_AFTER_DELETE,
)
"""What is asked before a table is made: about a hundred small requests, most of them at once."""
_OF_ANY_SERVER = (StorePromise.COUNTER,)
"""And of S3, which many programs speak: it finds those that compare first and write then, each time
where single races find them most times."""

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
"""Errors of a local folder that are the same at the next try."""


def probe_conditional_writes(store: ObjectStore) -> None:
    """Return when concurrent writers are safe on this store, as far as a second can show.

    Raises ConfigError naming the endpoint when they are not, StorageUnavailableError when the store
    cannot be reached.
    """
    try:
        report = check_quickly(store)
    except StorageUnavailableError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NOT_OURS:
            said = f"nothing can be written here: {cause.strerror}"
            raise ConfigError(said, path=store.uri) from error
        raise
    for complaint in report.complaints:
        place = getattr(store, "endpoint_url", store.uri)
        raise ConfigError(
            f"the store at {place} {complaint.message}; Tideline refuses to write to it "
            f"(tideline check-store {store.uri} says more)",
            path=store.uri,
        )


def check_quickly(store: ObjectStore, owner: str = "") -> StoreReport:
    """What is checked before a table is made; see `check_store`."""
    effort = QUICK_AT_A_SERVER if hasattr(store, "endpoint_url") else QUICK
    more = _OF_ANY_SERVER if store.uri.startswith("s3://") else ()
    return check_store((store,), effort=effort, promises=(*QUICK_PROMISES, *more), owner=owner)


def check_store(
    stores: Sequence[ObjectStore],
    *,
    effort: Effort = THOROUGH,
    promises: Sequence[StorePromise] = tuple(StorePromise),
    owner: str = "",
) -> StoreReport:
    """Ask for `promises`, one after another, and remove everything again.

    `owner` names who checks this place, and never twice at once: what an earlier check of the owner
    left is removed at once, that of others when it is old.

    `stores` are connections to one and the same place, at least one: more than one when they go
    through several endpoints or connection pools. Raises StorageUnavailableError when the store
    cannot be reached, refuses access or is full: then nothing is known. Takes seconds.
    """
    token = uuid.uuid4().hex
    arena = Arena(tuple(stores), check_folder(owner, token), token, effort)
    root = stores[0].local_path("")
    makes_root = root is not None and not Path(root).exists()
    try:
        remove_left_behind(arena, owner)
        results = tuple(_ask(arena, promise) for promise in promises)
        report = StoreReport(results, (*arena.notes, *notes_on_versions(arena.store)))
    except BaseException:
        with suppress(TidelineError):
            _clean_up(arena, makes_root)
        raise
    _clean_up(arena, makes_root)
    return report


def _ask(arena: Arena, promise: StorePromise) -> ProbeResult:
    try:
        wrong = _CHECKS[promise](arena)
    except (UnsupportedRequestError, InvalidDataError) as error:
        message = f"does not support what {promise} needs: {error.message}; {promise.cost}"
        return ProbeResult(promise, ProbeOutcome.UNSUPPORTED, message)
    except ObjectNotFoundError:
        wrong = "does not find an object that it has acknowledged"
    if wrong is None:
        return ProbeResult(promise, ProbeOutcome.PASSED)
    return ProbeResult(promise, ProbeOutcome.FAILED, f"{wrong}: {promise.cost}")


def _clean_up(arena: Arena, makes_root: bool) -> None:
    remove_own(arena)
    root = arena.store.local_path("")
    if makes_root and root is not None:
        with suppress(OSError):
            Path(root).rmdir()
