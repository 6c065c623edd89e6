"""LakeStore: a reusable connection to a store. Credentials are only ever named, not held.

A store is one on S3, on Google Cloud Storage or on Azure, and has the fields of its kind.
"""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tideline.storage.s3.request_headers import Checksum, Encryption
from tideline_operator.resources.field import CelRule, described, json_name
from tideline_operator.resources.metadata import NAME_RULE, ObjectMeta
from tideline_operator.resources.store_status import LakeStoreStatus
from tideline_operator.resources.warm import StoreEngine

_NEEDS_TLS = "needs an endpoint with TLS (https)"
_NO_LOGS_WITH_CERTIFICATE = "cannot be kept where Java shows a certificate (clientCertificate)"
_SECRET_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_AWS_AUDIENCE = "sts.amazonaws.com"
_REGION = "us-east-1"
_S3_ALONE: Mapping[str, Any] = {
    "endpoint": None,
    "region": _REGION,
    "create_buckets": False,
    "path_style": True,
    "web_identity": None,
    "event_logs": None,
    "sse": None,
    "sse_kms_key_id": None,
    "sse_bucket_key": None,
    "requester_pays": False,
    "checksum_algorithm": None,
    "client_certificate": None,
}
"""With what each of them is where it is left out: the API server fills defaults in."""
_IS_S3S = "is of stores on S3 alone: leave it out beside gcs and azure"
_OF_AN_ACCOUNT = "is required beside credentials, which are used at this account alone"
_ONE_KIND = "choose one of gcs and azure"
_ENDPOINT: Mapping[str, Any] = {
    "pattern": r"https?://[^\s/?#@$]+/?",
    "pattern_meaning": "http:// or https:// and a host, with a port if needed, and no path",
    "length_max": 512,
}
_ENDPOINT_WITH_PATH: Mapping[str, Any] = {
    "pattern": r"https?://[^\s/?#@$]+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?",
    "pattern_meaning": "http:// or https:// and a host, with a port and a path if needed",
    "length_max": 512,
}
_KEY_NEEDS_KMS = "goes with sse aws:kms and aws:kms:dsse"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCredentials:
    """Where the credentials are."""

    secret_name: str = described(
        f"Secret in the same namespace. For S3 it has the keys {_SECRET_KEYS}, and "
        "AWS_SESSION_TOKEN if they are temporary; for Google GOOGLE_SERVICE_ACCOUNT_KEY, the key "
        "of a service account as JSON; for Azure the first of AZURE_STORAGE_ACCOUNT_KEY, "
        "AZURE_STORAGE_SAS_TOKEN, and AZURE_TENANT_ID with AZURE_CLIENT_ID and "
        "AZURE_CLIENT_SECRET. `tideline run` reads the environment variables of those names "
        "instead.",
        length_max=253,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWebIdentity:
    """A token of the pods' service account that an STS exchanges for temporary credentials."""

    role_arn: str = described(
        "Role to assume, such as arn:aws:iam::123456789012:role/lake, or what MinIO calls the role "
        "of its identity provider.",
        pattern=r"arn:\S+",
        pattern_meaning="the ARN of a role",
        length_max=2048,
    )
    audience: str = described(
        "For whom the token is: what the STS expects. MinIO expects the client id of its provider.",
        default=_AWS_AUDIENCE,
        length_max=253,
    )
    sts_endpoint: str | None = described(
        "URL of the STS: MinIO's own endpoint, for MinIO. Without it, AWS's of the region.",
        default=None,
        **_ENDPOINT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClientCertificate:
    """What is shown to an endpoint that demands a certificate of its clients (mTLS)."""

    secret_name: str = described(
        "Secret of type kubernetes.io/tls in the same namespace: tls.crt has the certificate, "
        "tls.key its key. `tideline run` reads the files that TIDELINE_S3_CLIENT_CERTIFICATE_FILE "
        "and TIDELINE_S3_CLIENT_KEY_FILE name instead.",
        length_max=253,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTls:
    """How the endpoint's certificate is checked."""

    ca_secret_name: str = described(
        "Secret whose key ca.crt holds the authorities to trust. `tideline run` reads the file "
        "that AWS_CA_BUNDLE names instead.",
        length_max=253,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreGoogle:
    """A store on Google Cloud Storage."""

    endpoint: str | None = described(
        "URL of another server than Google's own.", default=None, **_ENDPOINT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAzure:
    """A store on Azure Blob Storage."""

    account: str | None = described(
        "Account of Azure, which locations like az://container/path do not name. Required beside "
        "credentials, which are used at this account alone.",
        default=None,
        pattern=r"[a-z0-9]{3,24}",
        pattern_meaning="3 to 24 lower-case letters and digits",
        length_max=24,
    )
    endpoint: str | None = described(
        "URL of another server than Azure's own. It ends in the account where the server has it in "
        "the path, as Azurite has.",
        default=None,
        pattern=r"https?://[^\s/?#@$]+(/[a-z0-9]{3,24})?/?",
        pattern_meaning="http:// or https:// and a host, with a port if needed, and no path but an "
        "account",
        length_max=512,
    )


def _s3_alone(name: str, default: Any) -> CelRule:
    field = json_name(name)
    is_left_out = f"!has(self.{field})"
    if default is not None:
        is_left_out += f" || self.{field} == {json.dumps(default)}"
    return CelRule(f"!has(self.gcs) && !has(self.azure) || {is_left_out}", _IS_S3S, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeStoreSpec:
    """A store on S3, unless `gcs` or `azure` says otherwise."""

    endpoint: str | None = described(
        "URL of the S3 endpoint; without it, AWS's own for the region.",
        default=None,
        **_ENDPOINT_WITH_PATH,
    )
    gcs: StoreGoogle | None = described(
        "A store on Google Cloud Storage; {} for Google's own server. Without this and azure, the "
        "store is one on S3.",
        default=None,
    )
    azure: StoreAzure | None = described("A store on Azure Blob Storage.", default=None)
    region: str = described(
        "Region to sign requests for.",
        default=_REGION,
        pattern=r"[A-Za-z0-9_-]+",
        pattern_meaning="the name of a region: letters, digits, - and _",
        length_max=64,
    )
    create_buckets: bool = described(
        "Create a bucket that is missing when a table is created in it.", default=False
    )
    path_style: bool = described(
        "Address buckets in the path and not in the host name, as MinIO needs.", default=True
    )
    credentials: StoreCredentials | None = described(
        "Credentials. Without them pods use those of their environment or their identity, and the "
        "operator reads unsigned, unless its chart lets it use its own identity here.",
        default=None,
    )
    web_identity: StoreWebIdentity | None = described(
        "An identity for the pods of each namespace, instead of credentials. `tideline run` uses "
        "that of its environment.",
        default=None,
    )
    tls: StoreTls | None = described("TLS settings.", default=None)
    client_certificate: StoreClientCertificate | None = described(
        "A certificate for an endpoint that demands one.", default=None
    )
    sse: Encryption | None = described(
        "How S3 encrypts what is written, where the bucket's own encryption is not what its policy "
        "demands.",
        default=None,
    )
    sse_kms_key_id: str | None = described(
        "Key of the KMS for `sse` aws:kms: its id, ARN or alias. Without it, the bucket's.",
        default=None,
        pattern=r"[A-Za-z0-9:/_.+=,@-]+",
        pattern_meaning="the id, the ARN or an alias of a key",
        length_max=2048,
    )
    sse_bucket_key: bool | None = described(
        "Whether one key of the bucket saves requests to the KMS; without it, as the bucket is "
        "set up.",
        default=None,
    )
    requester_pays: bool = described(
        "Requests are paid by the account whose credentials make them.", default=False
    )
    checksum_algorithm: Checksum | None = described(
        "Checksum that S3 gets with each write, as buckets with object lock demand.",
        default=None,
    )
    event_logs: str | None = described(
        "Where Spark's event logs of tables in this store are kept, for a history server: "
        "s3://bucket/prefix in this store. Nothing deletes them but a rule of the bucket.",
        default=None,
        pattern=r"s3a?://[^\s/?#]+/[^\s?#]+",
        pattern_meaning="s3://bucket/prefix",
        length_max=1024,
    )
    engine: StoreEngine = described(
        "How operations on tables of this store are carried out.", default_factory=StoreEngine
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("!has(self.gcs) || !has(self.azure)", _ONE_KIND, field="azure"),
        CelRule(
            "!has(self.azure) || has(self.azure.account) || !has(self.credentials)",
            _OF_AN_ACCOUNT,
            field="azure.account",
        ),
        *(_s3_alone(name, default) for name, default in _S3_ALONE.items()),
        CelRule(
            "!has(self.webIdentity) || !has(self.credentials)",
            "choose one of credentials and webIdentity",
            field="webIdentity",
        ),
        *(
            CelRule(
                f"!has(self.{field}) || has(self.sse) && self.sse != 'AES256'",
                _KEY_NEEDS_KMS,
                field=field,
            )
            for field in ("sseKmsKeyId", "sseBucketKey")
        ),
        CelRule(
            "!has(self.clientCertificate) || !has(self.endpoint) "
            "|| self.endpoint.startsWith('https://')",
            _NEEDS_TLS,
            field="clientCertificate",
        ),
        CelRule(
            "!has(self.eventLogs) || !has(self.clientCertificate)",
            _NO_LOGS_WITH_CERTIFICATE,
            field="eventLogs",
        ),
        CelRule(
            "!has(self.eventLogs) || !has(self.tls)",
            "cannot be kept behind a certificate that Java does not trust on its own (tls)",
            field="eventLogs",
        ),
    )

    @property
    def scheme(self) -> str:
        """That of locations in it, which says what kind of store it is."""
        if self.gcs is not None:
            return "gs"
        return "s3" if self.azure is None else "abfss"

    def faults(self) -> Iterator[tuple[str, str]]:
        """One kind of store and one identity at most, and event logs where Spark reaches them as it
        starts."""
        if self.gcs is not None and self.azure is not None:
            yield "azure", _ONE_KIND
        if self.azure is not None and self.azure.account is None and self.credentials is not None:
            yield "azure.account", _OF_AN_ACCOUNT
        if self.gcs is not None or self.azure is not None:
            for name, default in _S3_ALONE.items():
                if getattr(self, name) != default:
                    yield json_name(name), _IS_S3S
        if self.web_identity is not None and self.credentials is not None:
            yield "webIdentity", "choose one of credentials and webIdentity"
        if self.sse in (None, Encryption.S3):
            for name in ("sse_kms_key_id", "sse_bucket_key"):
                if getattr(self, name) is not None:
                    yield json_name(name), _KEY_NEEDS_KMS
        if self.client_certificate is not None:
            if (self.endpoint or "https://").startswith("http://"):
                yield "clientCertificate", _NEEDS_TLS
            if self.event_logs is not None:
                yield "eventLogs", _NO_LOGS_WITH_CERTIFICATE
        if self.event_logs is not None and self.tls is not None:
            problem = (
                "cannot be kept behind a certificate that Java does not trust on its own (tls)"
            )
            yield "eventLogs", problem


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeStore:
    """A connection to a store on S3, Google or Azure, for any number of tables of its namespace."""

    KIND: ClassVar[str] = "LakeStore"
    RULES: ClassVar[tuple[CelRule, ...]] = (NAME_RULE,)

    metadata: ObjectMeta = described("Standard metadata.")
    spec: LakeStoreSpec = described("The connection.")
    status: LakeStoreStatus = described(
        "Observed state; written by Tideline.", default_factory=LakeStoreStatus
    )
