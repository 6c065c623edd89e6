"""Stores of a table that are reached with what its REST catalog vends.

1. Keys are renewed before they end: when a third of their life is left, at most five minutes. Where
   the answer does not say the end they are loaded again every five minutes.
2. Where the catalog is away, keys are used until they end; the next request after that says why.
3. The catalog says where its own keys go and nobody else's. Storage options that the process or the
   resource gives count before what it says, and requests leave as the table's other requests do:
   from the operator through the proxy that checks addresses. Plain http needs `allow_http`.
4. Never pickled: a Spark task gets the catalog's name, loads the credentials itself with the
   configuration of its own process, once for all tasks of it, and renews them there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from tideline.errors import (
    ConfigError,
    StorageUnavailableError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.table.s3_properties import Bars
from tideline.iceberg.table.vended_keys import SETTING, Vended, VendedKeys
from tideline.secret_values import note_secrets
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import normalised
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import Keyless, Signer, StoreConnection
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.store import RemoteStore

UNTOLD_LIFE_S = 300.0
MARGIN_S_MAX = 300.0
_RETRY_S = 5.0
_OWN = f"to use credentials of your own, set the catalog's property {SETTING} to none"
_DENIED = f"the credentials are those that the catalog vends: give its user more rights; or, {_OWN}"


class Origin(Protocol):
    """The catalog, for one table."""

    def __call__(self) -> Vended:
        """What it vends now. Raises TidelineError."""


class VendedAccess:
    """The credentials of one table, for any number of threads. `now_s` is the present."""

    def __init__(self, origin: Origin, *, now_s: Callable[[], float] = time.time) -> None:
        self._origin = origin
        self._now_s = now_s
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._vended = Vended()
        self._ends_s = self._renew_s = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return shared_access, (self._origin,)

    def take(self, vended: Vended) -> None:
        """An answer of the catalog came with these."""
        with self._lock:
            self._take(vended)

    def keys(self, place: str) -> VendedKeys:
        """Current keys for a location. Raises StorageUnavailableError when there are none, and
        UnsupportedTableError when they are for other places."""
        self._renew_when_due()
        now_s = self._now_s()
        with self._lock:
            found = self._vended.covering(normalised(place))
        if found is None:
            message = f"the catalog vends credentials, and none of them for this place: {_OWN}"
            raise UnsupportedTableError(message, path=place)
        if found.ends_ms is not None and found.ends_ms <= now_s * 1000:
            ended = datetime.fromtimestamp(found.ends_ms / 1000, UTC).isoformat(timespec="seconds")
            raise StorageUnavailableError(
                f"the catalog vends credentials that ended at {ended}: check its clock, and this "
                "machine's",
                path=place,
            )
        return found

    def bars(self, place: str) -> Bars:
        """What the catalog demands of clients that write and delete there. Raises as `keys`."""
        return self.keys(place).properties.bars

    def root_of(self, place: str) -> str:
        """The folder around a location that one store is opened at. Raises as `keys`."""
        bucket = "/".join(place.split("/", 3)[:3])
        return max(bucket, self.keys(place).prefix, key=len)

    def store(self, root: StoreLocation, like: ObjectStore | None = None) -> ObjectStore:
        """The store at a location. Its requests leave this process as those of `like` do.

        Raises as `keys`, and UnsupportedTableError for an endpoint that is not taken.
        """
        keys = self.keys(root.uri)
        said, own = keys.properties, dict(root.options)
        if said.refused is not None:
            raise UnsupportedTableError(f"the catalog demands {said.refused}", path=root.uri)
        try:
            place = StoreLocation.of(root.uri, said.below(own))
        except ConfigError as error:
            message = (
                f"the place of the store that the catalog gives is not taken: {error.message}; "
                f"name the endpoint yourself; or, {_OWN}"
            )
            raise UnsupportedTableError(message, path=root.uri) from error
        given = like.connection if isinstance(like, RemoteStore) else None
        connection = (given or StoreConnection(Keyless.ANONYMOUS)).signed_by(
            self._signer(root.uri), _DENIED
        )
        return place.open(connection)

    def _signer(self, place: str) -> Signer:
        def current() -> dict[str, Any]:
            try:
                keys = self.keys(place)
            except TidelineError as error:
                raise IdentityError(error.message) from None
            ends_s = self._now_s() + UNTOLD_LIFE_S if keys.ends_ms is None else keys.ends_ms / 1000
            return {
                "access_key_id": keys.credentials.access_key_id,
                "secret_access_key": keys.credentials.secret_access_key,
                "token": keys.credentials.session_token,
                "expires_at": datetime.fromtimestamp(ends_s, UTC),
            }

        return current

    def _take(self, vended: Vended) -> None:
        for keys in vended.keys:
            secrets = keys.credentials.secret_access_key, keys.credentials.session_token
            note_secrets(secrets, are_passing=True)
        now_s = self._now_s()
        ends = [keys.ends_ms / 1000 for keys in vended.keys if keys.ends_ms is not None]
        self._vended = vended
        self._ends_s = (
            min([now_s + UNTOLD_LIFE_S, *ends])
            if len(ends) < len(vended.keys)
            else (min(ends, default=now_s))
        )
        self._renew_s = self._ends_s - min(MARGIN_S_MAX, max(0.0, self._ends_s - now_s) / 3)

    def _renew_when_due(self) -> None:
        """One thread asks the catalog; the others wait for it only once the keys have ended."""
        now_s = self._now_s()
        if now_s < self._renew_s or not self._renewing.acquire(blocking=now_s >= self._ends_s):
            return
        try:
            if self._now_s() >= self._renew_s:
                self._renew()
        finally:
            self._renewing.release()

    def _renew(self) -> None:
        """Raises StorageUnavailableError, unless there are keys that have not ended yet."""
        problem: TidelineError | None = None
        vended, asked_s = Vended(), self._now_s()
        try:
            vended = self._origin()
        except TidelineError as error:
            problem = error
        with self._lock:
            if vended.keys:
                self._take(vended)
            now_s = self._now_s()
            if self._renew_s > now_s:
                return
            # A catalog that hangs is not asked all the time.
            pause_s = max(_RETRY_S, now_s - asked_s)
            self._renew_s = now_s + min(pause_s, max(1.0, (self._ends_s - now_s) / 3))
            has_ended = self._ends_s <= now_s
        if has_ended and not vended.keys:
            why = "it vends none any more" if problem is None else problem.message
            raise StorageUnavailableError(
                f"the credentials that the catalog has vended are not renewed: {why}"
            ) from problem


@lru_cache(maxsize=64)
def shared_access(origin: Origin) -> VendedAccess:
    """The access of a process that was handed an origin: one for all that were handed the same."""
    return VendedAccess(origin)
