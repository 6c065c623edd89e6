"""An object store at a server, through obstore: what is the same for every kind of store.

A kind says by which condition its server creates and replaces (`_if_version`, `_version`), how it
spells failures (`words`) and how a client is opened. A lost reply makes a won create look lost,
because the retry meets our own object. So a create with a token leaves the token in the object's
user metadata, and after "already exists" (or no answer at all) the object is read back.

Two clients: one for small requests, which gives up on a dead endpoint within about twenty seconds,
and one for data, which tolerates slow links. Both open lazily, so that a store can be pickled.
"""

from __future__ import annotations

import io
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, ClassVar, Self, TypeVar, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from tideline.bounded.read_limits import admit, read_limits
from tideline.errors import ObjectNotFoundError, StorageUnavailableError, TidelineError
from tideline.storage.egress.route import NO_TICKET_CODE
from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    UnsupportedRequestError,
    VersionedBody,
    Written,
    carries_token,
    checked_path,
    checked_prefix,
)
from tideline.storage.remote.client import Endpoint, RequestLimits, refuse_after_fork
from tideline.storage.remote.connection import OpenClient, StoreConnection, connect_problem
from tideline.storage.remote.failure import RequestFailure, StoreWords, is_failed_request
from tideline.storage.remote.listing import listed, listed_level
from tideline.storage.remote.streams import RangeReader, Upload
from tideline.storage.request_count import count_requests

T = TypeVar("T")

_DELETED_AT_ONCE = 1000
_LARGE_BODY_BYTES = 1024 * 1024
_READ_BUFFER_BYTES = 1024 * 1024
_CREATE_ATTEMPTS = 2
_DELETES_AT_ONCE = 8


class RemoteStore(ABC):
    """`<scheme>://<bucket>[/<prefix>]` at an endpoint; credentials come from the environment.

    A `connection` brings its own; a store with one cannot be pickled. Raises ConfigError on first
    use when there are no credentials.
    """

    scheme: ClassVar[str]
    words: ClassVar[StoreWords]
    token_name: ClassVar[str] = "tideline-token"
    """Of the user metadata that has the token of a create."""
    open_client: ClassVar[OpenClient]
    copies: ClassVar[bool] = True
    """Whether a copy that the server has acknowledged is complete."""
    _lists_may_end_early: bool = True
    """Whether the client takes an answer that is no list for the last page of one."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: Endpoint,
        limits: RequestLimits | None = None,
        connection: StoreConnection | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = checked_prefix(prefix)
        self._endpoint = endpoint
        own = RequestLimits() if connection is None else connection.limits
        self._limits = limits or own
        self._connection = connection
        self._clients: dict[bool, Any] = {}
        self._bucket_seen = False

    def _opened(self, *, data: bool) -> Any:
        """A client for the bucket. Raises ConfigError."""
        place = (self._bucket, self._endpoint, self._limits)
        if self._connection is None:
            return type(self).open_client(*place, data=data)
        return self._connection.client(type(self).open_client, self.scheme, *place, data=data)

    @abstractmethod
    def _if_version(self, version: str) -> Any:
        """obstore's mode of a write that replaces `version` only."""

    def _version(self, result: Mapping[str, Any]) -> str:
        """The version that a request has shown. Raises UnsupportedRequestError without one."""
        etag = result["e_tag"]
        if not etag:
            raise UnsupportedRequestError(
                f"the server at {self.endpoint_url} sends no ETag", path=self.uri
            )
        return str(etag)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_clients": {}}

    def __str__(self) -> str:
        return f"{self.uri} at {self.endpoint_url}"

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self._bucket}" + (f"/{self._prefix}" if self._prefix else "")

    @property
    def connection(self) -> StoreConnection | None:
        """What it was opened with; None for the environment's identity."""
        return self._connection

    @property
    def endpoint_url(self) -> str:
        return self._endpoint.service_url

    def get(self, path: str) -> bytes:
        with self._requesting("read", path):
            result = obstore.get(self._client(), self._key(path))
            return self._admitted(result, path)

    def get_versioned(self, path: str) -> VersionedBody:
        with self._requesting("read", path):
            result = obstore.get(self._client(), self._key(path))
            return VersionedBody(self._admitted(result, path), self._version(result.meta))

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        if length == 0:
            return b""
        return self._range(self._client(), path, offset, length)

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with self._requesting("look up", path):
                return self._info(obstore.head(self._client(), self._key(path)))
        except ObjectNotFoundError:
            pass
        # A 404 to HEAD has no body that says whether the bucket or the object is missing.
        self._check_bucket(path)
        return None

    def put(self, path: str, body: bytes) -> Written:
        with self._requesting("write", path, writes=True):
            client = self._client(data=len(body) > _LARGE_BODY_BYTES)
            return Written(self._version(obstore.put(client, self._new_key(path), body)))

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        attempt = 1
        while True:
            try:
                return self._create(path, body, token)
            except _UnknownOutcomeError as unknown:
                if token is None:
                    raise unknown.error from None
                settled = self._settle(path, body, token)
                if settled is not None:
                    return settled
                if attempt == _CREATE_ATTEMPTS:
                    raise unknown.error from None
            attempt += 1

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        client = self._client(data=len(body) > _LARGE_BODY_BYTES)
        with self._requesting("replace", path, writes=True):
            try:
                mode = self._if_version(version)
                result = obstore.put(client, self._new_key(path), body, mode=mode)
            except (PreconditionError, FileNotFoundError) as error:
                if self._failed(error).is_refusal:
                    raise
                return Changed()
            return Written(self._version(result))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        directory = checked_prefix(prefix)
        with self._requesting("list", directory, requests=0):
            folder = self._joined(directory) or None
            found = listed(self._client(), folder, may_end_early=self._lists_may_end_early)
            yield from self._without_markers(directory, map(self._info, found))

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        """Without empty objects, among which the markers of other tools cannot be recognised."""
        with self._requesting("list", path, requests=0):
            found = listed(
                self._client(),
                self._prefix or None,
                self._joined(path) or None,
                may_end_early=self._lists_may_end_early,
            )
            yield from (self._info(item) for item in found if item["size"])

    def list_directory(self, prefix: str = "") -> Listing:
        directory = checked_prefix(prefix)
        with self._requesting("list", directory):
            result = listed_level(
                self._client(),
                self._joined(directory) or None,
                may_end_early=self._lists_may_end_early,
            )
        objects = (self._info(item) for item in result["objects"])
        return Listing(
            tuple(item for item in objects if item.path != directory),
            tuple(self._relative(key) for key in result["common_prefixes"]),
        )

    def delete(self, path: str) -> None:
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        keys = (self._key(path) for path in paths)
        while batch := [*itertools.islice(keys, _DELETED_AT_ONCE)]:
            first = self._relative(batch[0])
            with self._requesting("delete", first, writes=True):
                # Some servers delete one after another before they answer.
                self._delete(self._client(data=len(batch) > 1), batch)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object below `prefix`; directory markers of other tools stay."""
        self.delete_many(item.path for item in self.list(prefix))

    def copy_within(self, path: str, target: RemoteStore, target_path: str) -> bool:
        """Have the server copy an object to a path of `target`; False where that is another
        bucket, or copies are not known to be complete. Raises ObjectNotFoundError."""
        places = {(store.scheme, store._bucket, store._endpoint) for store in (self, target)}
        if len(places) > 1 or not self.copies:
            return False
        with self._requesting("copy", path):
            obstore.copy(self._client(data=True), self._key(path), target._new_key(target_path))
        return True

    def elsewhere(self, bucket: str, prefix: str = "") -> Self:
        """Another place at the same endpoint, with the same credentials."""
        return type(self)(
            bucket,
            prefix,
            endpoint=self._endpoint,
            limits=self._limits,
            connection=self._connection,
        )

    def open_reader(self, path: str) -> BinaryIO:
        found = self.head(path)
        if found is None:
            raise ObjectNotFoundError(
                f"no such object at {self.endpoint_url}", path=self._uri(path)
            )
        return io.BufferedReader(RangeReader(self, path, found.size_bytes), _READ_BUFFER_BYTES)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return Upload(self, checked_path(path))

    def local_path(self, path: str) -> str | None:  # noqa: ARG002
        return None

    def _create(self, path: str, body: bytes, token: str | None) -> Written | AlreadyExists:
        count_requests()
        self._ask("create", path, writes=True)
        attributes = {self.token_name: token} if token is not None else None
        client = self._client(data=len(body) > _LARGE_BODY_BYTES)
        try:
            result = obstore.put(
                client, self._new_key(path), body, mode="create", attributes=attributes
            )
            self._note(None)
            return Written(self._version(result))
        except AlreadyExistsError:
            self._note(None)
            settled = self._settle(path, body, token) if token is not None else None
            return settled or AlreadyExists()
        except BaseException as error:
            failure = self._failure(error)
            self._note(failure.no_answer)
            raised = self._error(failure, "create", path)
            if failure.outcome_unknown:
                raise _UnknownOutcomeError(raised) from None
            raise raised from None

    def _settle(self, path: str, body: bytes, token: str | None) -> Written | AlreadyExists | None:
        """Whose object is there: the one `token` wrote, another writer's, or (None) none."""
        try:
            with self._requesting("read back", path):
                result = obstore.get(self._client(), self._key(path))
                written_with = result.attributes.get(self.token_name)
                if written_with is None:
                    stored = self._received(result, path, at_most=len(body) + 1)
                    ours = carries_token(body, stored, token)
                else:
                    ours = written_with == token
                return Written(self._version(result.meta)) if ours else AlreadyExists()
        except ObjectNotFoundError:
            return None

    def _admitted(self, result: Any, path: str) -> bytes:
        """The body of a metadata object. Raises UnsupportedTableError beyond the limit, whatever
        size the server has announced."""
        admit(result.meta["size"], path=self._uri(path))
        limit_bytes = read_limits().object_bytes_max
        body = self._received(result, path, at_most=limit_bytes + 1)
        if len(body) > limit_bytes:
            admit(len(body), path=self._uri(path))
        return body

    def _received(
        self, result: Any, path: str, *, at_most: int, within_s: float | None = None
    ) -> bytes:
        """The body of an answer, up to `at_most` bytes of it: servers may send more than they were
        asked for, or for ever. Raises StorageUnavailableError when it does not end `within_s`, or
        within the deadline of metadata."""
        within_s = self._limits.metadata_timeout_s if within_s is None else within_s
        ends_s = time.monotonic() + within_s
        parts: list[bytes] = []
        left = at_most
        for chunk in result.stream(min_chunk_size=1):
            parts.append(bytes(chunk)[:left])
            left -= len(parts[-1])
            if left <= 0:
                break
            if time.monotonic() > ends_s:
                message = f"Cannot read at {self.endpoint_url}: no end after {within_s:g} s"
                raise StorageUnavailableError(message, path=self._uri(path))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _range(self, client: Any, path: str, offset: int, length: int) -> bytes:
        with self._requesting("read", path):
            try:
                key = self._key(path)
                ends = {"range": (offset, offset + length)}
                result = obstore.get(client, key, options=cast(Any, ends))
                return self._received(
                    result, path, at_most=length, within_s=self._limits.total_timeout_s
                )
            except BaseError as error:
                if self._failed(error).is_past_the_end:
                    return b""
                raise

    def _without_markers(self, prefix: str, found: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        """Drop the empty `<directory>/` objects that S3A and consoles leave.

        obstore shows them without the slash, like an empty object of that name. Where an empty
        object shows up, one listing of its directory distinguishes the two.
        """
        levels: dict[str, frozenset[str]] = {}
        for item in found:
            if item.path == prefix:
                continue
            if item.size_bytes == 0:
                parent = item.path.rpartition("/")[0]
                if parent not in levels:
                    level = self.list_directory(parent).objects
                    levels[parent] = frozenset(item.path for item in level)
                if item.path not in levels[parent]:
                    continue
            yield item

    def _client(self, *, data: bool = False) -> Any:
        refuse_after_fork()
        client = self._clients.get(data)
        if client is None:
            client = self._clients[data] = self._opened(data=data)
        return client

    def _delete(self, client: Any, keys: Sequence[str]) -> None:
        """Delete objects; some may be missing. Servers that complain of those may have left out
        others."""
        try:
            obstore.delete(client, keys)
        except FileNotFoundError as error:
            if self._failed(error).is_refusal:
                raise
            self._check_bucket(self._relative(keys[0]))
            if len(keys) > 1:
                with ThreadPoolExecutor(_DELETES_AT_ONCE) as threads:
                    for _ in threads.map(partial(_delete_one, client), keys):
                        count_requests()

    def _failed(self, error: BaseException) -> RequestFailure:
        return RequestFailure.of(error, self.words)

    def _check_bucket(self, path: str) -> None:
        """Raises MissingBucketError unless the bucket is known to be there."""
        if self._bucket_seen:
            return
        with suppress(ObjectNotFoundError):
            self.get_range(path, offset=0, length=1)
        self._bucket_seen = True

    @contextmanager
    def _requesting(
        self, action: str, path: str, *, requests: int = 1, writes: bool = False
    ) -> Iterator[None]:
        count_requests(requests)
        self._ask(action, path, writes=writes)
        try:
            yield
        except BaseException as error:
            failure = self._failure(error)
            self._note(failure.no_answer)
            if failure.is_missing and failure.code is not None:
                self._bucket_seen = True
            raise self._error(failure, action, path) from None
        self._note(None)
        self._bucket_seen = True

    def _failure(self, error: BaseException) -> RequestFailure:
        if not is_failed_request(error):
            raise error
        failure = self._failed(error)
        if not failure.may_be_unconnected:
            return failure
        problem = connect_problem(self._endpoint, self._bucket, self._connection)
        if problem is None and failure.code == NO_TICKET_CODE:
            # Clients show the ticket only to the host that they were given.
            problem = "the server redirects to another host, which is not its endpoint"
        return failure if problem is None else RequestFailure.unconnected(problem, self.words)

    def _error(self, failure: RequestFailure, action: str, path: str) -> TidelineError:
        if failure.has_ended_keys:
            # A client keeps them until their own end.
            self._clients = {}
            if self._connection is not None:
                self._connection.forget_clients()
        if failure.key is not None:
            path = self._relative(failure.key)
        advice = None if self._connection is None else self._connection.denied_advice
        return failure.error(
            action, uri=self._uri(path), endpoint=self.endpoint_url, denied_advice=advice
        )

    def _ask(self, action: str, path: str, *, writes: bool) -> None:
        """Raises StorageUnavailableError when the connection's gate lets no request through."""
        if self._connection is None or self._connection.gate is None:
            return
        server = self._endpoint.server(self._bucket)
        reason = self._connection.gate.refusal(server, writes=writes)
        if reason is not None:
            raise StorageUnavailableError(
                f"Cannot {action} at {self.endpoint_url}: {reason}", path=self._uri(path)
            )

    def _note(self, problem: str | None) -> None:
        if self._connection is not None and self._connection.gate is not None:
            self._connection.gate.note(self._endpoint.server(self._bucket), problem)

    def _info(self, item: Mapping[str, Any]) -> ObjectInfo:
        modified_ms = round(item["last_modified"].timestamp() * 1000)
        return ObjectInfo(self._relative(item["path"]), item["size"], modified_ms, item["e_tag"])

    def _key(self, path: str) -> str:
        return self._joined(checked_path(path))

    def _new_key(self, path: str) -> str:
        return self._key(path)

    def _joined(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path) if part)

    def _relative(self, key: str) -> str:
        if not self._prefix:
            return key
        return key[len(self._prefix) + 1 :]

    def _uri(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri


def _delete_one(client: Any, key: str) -> None:
    with suppress(FileNotFoundError):
        obstore.delete(client, key)


class _UnknownOutcomeError(Exception):
    """A create that may or may not have taken place; `error` is what to raise if it stays so."""

    def __init__(self, error: Exception) -> None:
        self.error = error
