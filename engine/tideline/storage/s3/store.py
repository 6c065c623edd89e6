"""An object store on S3 or anything that speaks its protocol.

Conditional writes are `If-None-Match: *` and `If-Match: <etag>`. An ETag is a digest of the bytes:
a body that was there before has the version that it had then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import obstore

from tideline.errors import InvalidDataError
from tideline.storage.object_store import Listing
from tideline.storage.probe.backslash import lists_backslashes
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.remote.failure import StoreWords
from tideline.storage.remote.store import RemoteStore
from tideline.storage.s3.client import S3Endpoint, open_client
from tideline.storage.s3.directory_bucket import is_directory_bucket

_ELSEWHERE = "the bucket lives at another endpoint or region"
_NO_KEY = "the KMS has no such key (sse_kms_key_id)"
S3_WORDS = StoreWords(
    missing_bucket=frozenset({"NoSuchBucket"}),
    create="create it, or have Tideline create it (tideline create --create-bucket, createBuckets "
    "of the LakeStore, or the storage option create_bucket)",
    wrong_request={
        "InvalidBucketName": "the bucket name is not valid",
        "AuthorizationHeaderMalformed": "the region is not the bucket's",
        "PermanentRedirect": _ELSEWHERE,
        "KMS.NotFoundException": _NO_KEY,
        "kms:KeyNotFound": _NO_KEY,
        "KMS.DisabledException": "the key of the KMS is disabled",
        "KMS.KMSInvalidStateException": "the key of the KMS is not in use, or is to be deleted",
    },
    refused_keys={
        "InvalidAccessKeyId": "the access key is not known there",
        # VersityGW says so with 404.
        "XAdminUserNotFound": "the access key is not known there",
        "SignatureDoesNotMatch": "the secret key is not that of the access key",
        "ExpiredToken": "the session token has expired",
        "TokenRefreshRequired": "the session token has expired",
        "RequestTimeTooSkewed": "this machine's clock is off",
    },
    ended_keys=frozenset({"ExpiredToken", "TokenRefreshRequired"}),
    elsewhere=_ELSEWHERE,
)


class S3Store(RemoteStore):
    """`s3://<bucket>[/<prefix>]`."""

    scheme = "s3"
    words = S3_WORDS

    keeps_versions = False
    """Whether an answer has shown that the bucket keeps what is deleted or replaced."""
    _keeps_backslashes: bool | None = None
    """None until a name with one is to be written."""

    open_client = staticmethod(open_client)

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: S3Endpoint | None = None,
        limits: RequestLimits | None = None,
        connection: StoreConnection | None = None,
    ) -> None:
        super().__init__(
            bucket, prefix, endpoint=endpoint or S3Endpoint(), limits=limits, connection=connection
        )
        # They have no order to continue in.
        self._lists_may_end_early = not is_directory_bucket(bucket)

    def list_directory(self, prefix: str = "") -> Listing:
        found = super().list_directory(prefix)
        if not is_directory_bucket(self._bucket):
            return found
        objects = sorted(found.objects, key=lambda item: item.path)
        return Listing(tuple(objects), tuple(sorted(found.directories)))

    def _version(self, result: Mapping[str, Any]) -> str:
        if result.get("version") not in (None, "", "null"):
            self.keeps_versions = True
        return super()._version(result)

    def _if_version(self, version: str) -> Any:
        return {"e_tag": version}

    def _new_key(self, path: str) -> str:
        key = super()._new_key(path)
        if "\\" in key:
            if self._keeps_backslashes is None:
                self._keeps_backslashes = lists_backslashes(self, self._try)
            if not self._keeps_backslashes:
                raise InvalidDataError(
                    f"the store at {self.endpoint_url} takes a backslash for a slash, so it keeps "
                    "no names with one (SeaweedFS does with the flag -s3.allowBackslashInKey)",
                    path=path,
                )
        return key

    def _try(self, path: str) -> None:
        """Write an object whatever its name is."""
        with self._requesting("try a name", path, writes=True):
            obstore.put(self._client(), self._key(path), b"1")
