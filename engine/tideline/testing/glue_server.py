"""A Glue Data Catalog in memory, for tests: what AWS documents and moto leaves out.

Moto (5.x) takes an update of a table whatever its `VersionId`, batches of any length, and answers
listings in one page. This one refuses an update of another version
(`ConcurrentModificationException`), has AWS's limits of batches, and pages of a few entries. Names
have no case.

Source: AWS, "AWS Glue Web API Reference".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tideline.testing.loopback_server import LoopbackServer

CREATED_AT_ONCE, DELETED_AT_ONCE, UPDATED_AT_ONCE, READ_AT_ONCE = 100, 25, 100, 1000
Content = dict[str, Any]
Name = tuple[str, str]


class GlueFaultError(Exception):
    """A refusal."""

    def __init__(self, code: str, words: str = "", status: int = 400) -> None:
        super().__init__(code)
        self.code, self.words, self.status = code, words, status


class LostAnswerError(Exception):
    """The connection ends without an answer."""


@dataclass(frozen=True, slots=True)
class GlueRequest:
    """One request."""

    action: str
    content: Content
    headers: dict[str, str]


class GlueServer(LoopbackServer):
    """Running for the length of a `with` block. `before` and `after` are called around each action;
    what they raise is the answer."""

    def __init__(self, *, page: int = 100) -> None:
        super().__init__(self._handler)
        self.databases: dict[str, Content] = {}
        self.tables: dict[Name, Content] = {}
        self.partitions: dict[Name, dict[tuple[str, ...], Content]] = {}
        self.archived: list[Name] = []
        """A table for each of its former versions that was kept."""
        self.received: list[GlueRequest] = []
        self.before: Callable[[GlueRequest], None] = lambda _: None
        self.after: Callable[[GlueRequest], None] = lambda _: None
        self._page = page
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Be as at the start."""
        for known in (self.databases, self.tables, self.partitions, self.archived, self.received):
            known.clear()
        self.before = self.after = lambda _: None

    def count(self, action: str) -> int:
        return sum(request.action == action for request in self.received)

    def _handler(self, *given: Any) -> BaseHTTPRequestHandler:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                action = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
                headers = {name.lower(): text for name, text in self.headers.items()}
                request = GlueRequest(action, json.loads(body or b"{}"), headers)
                try:
                    status, content = 200, server._answer(request)
                except GlueFaultError as fault:
                    status = fault.status
                    content = {"__type": fault.code, "Message": fault.words}
                except LostAnswerError:
                    self.close_connection = True
                    return
                answer = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler(*given)

    def _answer(self, request: GlueRequest) -> Content:
        self.received.append(request)
        self.before(request)
        act = getattr(self, f"_on_{request.action}", None)
        if act is None:
            raise GlueFaultError("InvalidInputException", f"no action {request.action}")
        with self._lock:
            content: Content = act(request.content)
        self.after(request)
        return content

    def _on_GetDatabase(self, asked: Content) -> Content:
        return {"Database": _found(self.databases, asked["Name"].lower())}

    def _on_GetDatabases(self, asked: Content) -> Content:
        return self._paged(list(self.databases.values()), "DatabaseList", asked)

    def _on_CreateDatabase(self, asked: Content) -> Content:
        given = asked["DatabaseInput"]
        _add(self.databases, given["Name"].lower(), {**given, "Name": given["Name"].lower()})
        return {}

    def _on_GetTable(self, asked: Content) -> Content:
        _found(self.databases, asked["DatabaseName"].lower())
        return {"Table": _found(self.tables, _name(asked, asked["Name"]))}

    def _on_GetTables(self, asked: Content) -> Content:
        database = asked["DatabaseName"].lower()
        _found(self.databases, database)
        listed = [table for (home, _), table in self.tables.items() if home == database]
        return self._paged(listed, "TableList", asked)

    def _on_CreateTable(self, asked: Content) -> Content:
        _found(self.databases, asked["DatabaseName"].lower())
        given = asked["TableInput"]
        name = _name(asked, given["Name"])
        _add(self.tables, name, _table(name, given, "0"))
        self.partitions[name] = {}
        return {}

    def _on_UpdateTable(self, asked: Content) -> Content:
        name = _name(asked, asked["TableInput"]["Name"])
        version = _found(self.tables, name)["VersionId"]
        if asked.get("VersionId", version) != version:
            raise GlueFaultError("ConcurrentModificationException", "another version")
        self.tables[name] = _table(name, asked["TableInput"], str(int(version) + 1))
        if not asked.get("SkipArchive"):
            self.archived.append(name)
        return {}

    def _on_DeleteTable(self, asked: Content) -> Content:
        name = _name(asked, asked["Name"])
        _found(self.tables, name)
        del self.tables[name], self.partitions[name]
        return {}

    def _on_GetPartitions(self, asked: Content) -> Content:
        name = _name(asked, asked["TableName"])
        _found(self.tables, name)
        return self._paged(list(self.partitions[name].values()), "Partitions", asked)

    def _on_BatchGetPartition(self, asked: Content) -> Content:
        name = _name(asked, asked["TableName"])
        _found(self.tables, name)
        given = _at_once(asked["PartitionsToGet"], READ_AT_ONCE)
        wanted = [tuple(item["Values"]) for item in given[: self._page]]
        known = self.partitions[name]
        return {
            "Partitions": [known[values] for values in wanted if values in known],
            "UnprocessedKeys": given[self._page :],
        }

    def _on_BatchCreatePartition(self, asked: Content) -> Content:
        given = _at_once(asked["PartitionInputList"], CREATED_AT_ONCE)
        return self._each(asked, given, _add_partition, lambda item: item["Values"])

    def _on_BatchUpdatePartition(self, asked: Content) -> Content:
        given = _at_once(asked["Entries"], UPDATED_AT_ONCE)
        return self._each(asked, given, _update_partition, lambda item: item["PartitionValueList"])

    def _on_BatchDeletePartition(self, asked: Content) -> Content:
        given = _at_once(asked["PartitionsToDelete"], DELETED_AT_ONCE)
        return self._each(asked, given, _delete_partition, lambda item: item["Values"])

    def _each(
        self,
        asked: Content,
        given: list[Content],
        act: Callable[[dict[tuple[str, ...], Content], Content], None],
        values_of: Callable[[Content], list[str]],
    ) -> Content:
        name = _name(asked, asked["TableName"])
        _found(self.tables, name)
        errors = []
        for item in given:
            try:
                act(self.partitions[name], item)
            except GlueFaultError as fault:
                detail = {"ErrorCode": fault.code, "ErrorMessage": fault.words}
                errors.append({"PartitionValues": values_of(item), "ErrorDetail": detail})
        return {"Errors": errors}

    def _paged(self, listed: list[Content], member: str, asked: Content) -> Content:
        start = int(asked.get("NextToken") or 0)
        end = start + min(self._page, asked.get("MaxResults") or self._page)
        more = {"NextToken": str(end)} if end < len(listed) else {}
        return {member: listed[start:end], **more}


def _table(name: Name, given: Content, version: str) -> Content:
    database, table = name
    return {**given, "Name": table, "DatabaseName": database, "VersionId": version}


def _name(asked: Content, table: str) -> Name:
    return asked["DatabaseName"].lower(), table.lower()


def _found(known: dict[Any, Content], name: Any) -> Content:
    if name not in known:
        raise GlueFaultError("EntityNotFoundException", f"{name} not found.")
    return known[name]


def _add(known: dict[Any, Content], name: Any, content: Content) -> None:
    if name in known:
        raise GlueFaultError("AlreadyExistsException", f"{name} already exists.")
    known[name] = content


def _at_once(given: list[Content], most: int) -> list[Content]:
    if len(given) > most:
        raise GlueFaultError("ValidationException", f"at most {most}")
    return given


def _add_partition(known: dict[tuple[str, ...], Content], item: Content) -> None:
    _add(known, tuple(item["Values"]), item)


def _update_partition(known: dict[tuple[str, ...], Content], item: Content) -> None:
    values = tuple(item["PartitionValueList"])
    _found(known, values)
    del known[values]
    known[tuple(item["PartitionInput"]["Values"])] = item["PartitionInput"]


def _delete_partition(known: dict[tuple[str, ...], Content], item: Content) -> None:
    _found(known, tuple(item["Values"]))
    del known[tuple(item["Values"])]
