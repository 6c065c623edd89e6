"""What runs in the pod of a REST catalog: tables are registered, changed and read, by PyIceberg.

Requirements are checked and updates are applied as in Iceberg's specification. Tables are kept in
memory, their metadata in the bucket. A client without the token is refused.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata

PORT = 8181
TOKEN = os.environ["CATALOG_TOKEN"]
FILES = load_file_io(
    {
        "s3.endpoint": os.environ["CATALOG_S3_ENDPOINT"],
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "s3.region": "us-east-1",
        "s3.force-virtual-addressing": "false",
    }
)


class Refused(Exception):  # noqa: N818
    """An answer that is an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Tables:
    """The location of the newest metadata of each table, by namespace and name."""

    def __init__(self) -> None:
        self._locations: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def register(self, namespace: str, name: str, location: str) -> dict[str, Any]:
        with self._lock:
            if self._locations.setdefault((namespace, name), location) != location:
                raise Refused(409, "AlreadyExistsException", f"{namespace}.{name} exists")
        return self.shown(namespace, name)

    def shown(self, namespace: str, name: str) -> dict[str, Any]:
        location = self._location(namespace, name)
        document = json.loads(_read(location).model_dump_json())
        return {"metadata-location": location, "metadata": document, "config": {}}

    def commit(self, namespace: str, name: str, body: bytes) -> dict[str, Any]:
        request = CommitTableRequest.model_validate_json(body)
        with self._lock:
            location = self._location(namespace, name)
            base = _read(location)
            try:
                for requirement in request.requirements:
                    requirement.validate(base)
            except CommitFailedException as error:
                raise Refused(409, "CommitFailedException", str(error)) from None
            changed = update_table_metadata(base, request.updates, metadata_location=location)
            version = len(changed.metadata_log)
            path = f"{changed.location}/metadata/{version:05d}-{uuid.uuid4()}.metadata.json"
            ToOutputFile.table_metadata(changed, FILES.new_output(path))
            self._locations[namespace, name] = path
        return self.shown(namespace, name)

    def _location(self, namespace: str, name: str) -> str:
        location = self._locations.get((namespace, name))
        if location is None:
            raise Refused(404, "NoSuchTableException", f"no table {namespace}.{name}")
        return location


def _read(location: str) -> TableMetadata:
    return FromInputFile.table_metadata(FILES.new_input(location))


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    tables = Tables()

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401, "NotAuthorizedException", "no token")
            self.reply(200, self.result(body))
        except Refused as error:
            said = {"message": str(error), "type": error.kind, "code": error.status}
            self.reply(error.status, {"error": said})

    do_GET = do_HEAD = do_POST = answer

    def result(self, body: bytes) -> dict[str, Any]:
        match [unquote(part) for part in self.path.partition("?")[0].split("/")[2:]]:
            case ["config"]:
                return {"defaults": {}, "overrides": {}}
            case ["namespaces"]:
                return {"namespace": json.loads(body)["namespace"], "properties": {}}
            case ["namespaces", namespace]:
                return {"namespace": [namespace], "properties": {}}
            case ["namespaces", namespace, "register"]:
                asked = json.loads(body)
                return self.tables.register(namespace, asked["name"], asked["metadata-location"])
            case ["namespaces", namespace, "tables", name] if self.command == "POST":
                return self.tables.commit(namespace, name, body)
            case ["namespaces", namespace, "tables", name]:
                return self.tables.shown(namespace, name)
        raise Refused(404, "NotFoundException", f"nothing is at {self.path}")

    def reply(self, status: int, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, text: str, *values: object) -> None:
        """What was asked, and the status of the answer; no header."""
        print(text % values, flush=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
