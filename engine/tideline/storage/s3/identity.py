"""Whose credentials sign requests to S3, found as AWS's own tools find them.

1. Access keys in the environment, with AWS_SESSION_TOKEN where they are temporary.
2. A web identity token (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), exchanged at the STS that
   AWS_ENDPOINT_URL_STS names: AWS's own of the region, or MinIO.
3. A profile of the shared files, if AWS_PROFILE names one. boto3 reads it.
4. The container's credentials (ECS, EKS Pod Identity).
5. The instance's role, from the metadata service.

Nothing but the environment and, in 5, the metadata service is asked here; credentials are fetched
and refreshed by the clients, obstore and Hadoop's S3A, which are both told the same source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from tideline.distribution import installation
from tideline.errors import ConfigError
from tideline.storage.egress.client_certificate import ClientFor
from tideline.storage.remote.identity import check_implicit_identity
from tideline.storage.s3.machine_credentials import (
    CONTAINER_VARIABLES,
    MachineCredentials,
    is_metadata_service,
)
from tideline.storage.s3.web_identity import WebIdentity

METADATA_URL = "http://169.254.169.254"
_METADATA_TIMEOUT_S = 1.0
_SDK = "software.amazon.awssdk.auth.credentials"
_HADOOP = "org.apache.hadoop.fs.s3a"


class IdentitySource(Enum):
    """Where credentials come from, in words."""

    KEYS = "access keys in the environment"
    WEB_IDENTITY = "a web identity token"
    PROFILE = "a profile"
    CONTAINER = "the container's credentials"
    INSTANCE = "the instance's role"
    NOBODY = "nobody: requests are not signed"

    @property
    def s3a_provider(self) -> str:
        """The class that finds the same credentials for Hadoop's S3A connector."""
        return {
            IdentitySource.KEYS: f"{_SDK}.EnvironmentVariableCredentialsProvider",
            IdentitySource.WEB_IDENTITY: f"{_SDK}.WebIdentityTokenFileCredentialsProvider",
            IdentitySource.PROFILE: f"{_SDK}.ProfileCredentialsProvider",
            IdentitySource.CONTAINER: f"{_HADOOP}.auth.IAMInstanceCredentialsProvider",
            IdentitySource.INSTANCE: f"{_HADOOP}.auth.IAMInstanceCredentialsProvider",
            IdentitySource.NOBODY: f"{_HADOOP}.AnonymousAWSCredentialsProvider",
        }[self]


@dataclass(frozen=True, slots=True)
class S3Identity:
    """A source, and what it needs; the fields of other sources are empty."""

    source: IdentitySource
    role_arn: str = ""
    token_file: str = ""
    sts_url: str = ""
    profile: str = ""
    metadata_url: str = ""

    def __str__(self) -> str:
        about = {
            IdentitySource.WEB_IDENTITY: f" for {self.role_arn}",
            IdentitySource.PROFILE: f" ({self.profile})",
        }
        return self.source.value + about.get(self.source, "")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> S3Identity:
        """The identity that an environment gives.

        Raises ConfigError when there is none, or one that lacks something.
        """
        given = environment.get
        if given("AWS_ACCESS_KEY_ID") and given("AWS_SECRET_ACCESS_KEY"):
            return cls(IdentitySource.KEYS)
        if given("AWS_SKIP_SIGNATURE"):
            return cls(IdentitySource.NOBODY)
        if token_file := given("AWS_WEB_IDENTITY_TOKEN_FILE"):
            return cls._of_token(token_file, environment)
        if profile := given("AWS_PROFILE") or given("AWS_DEFAULT_PROFILE"):
            return cls(IdentitySource.PROFILE, profile=profile)
        if any(given(name) for name in CONTAINER_VARIABLES):
            return cls(IdentitySource.CONTAINER)
        url = (given("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA_URL).rstrip("/")
        is_off = (given("AWS_EC2_METADATA_DISABLED") or "").lower() == "true"
        if not is_off and _is_metadata_service(url):
            return cls(IdentitySource.INSTANCE, metadata_url=url)
        raise ConfigError(
            "no S3 credentials in the environment: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ", or AWS_PROFILE, or give the pod or the machine a role"
        )

    @classmethod
    def _of_token(cls, token_file: str, environment: Mapping[str, str]) -> S3Identity:
        role_arn = environment.get("AWS_ROLE_ARN") or ""
        if not role_arn:
            raise ConfigError(
                "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not: set both"
            )
        if not os.access(token_file, os.R_OK):
            message = (
                "cannot read AWS_WEB_IDENTITY_TOKEN_FILE: name a file that this process may read"
            )
            raise ConfigError(message, path=token_file)
        sts_url = environment.get("AWS_ENDPOINT_URL_STS") or ""
        return cls(
            IdentitySource.WEB_IDENTITY,
            role_arn=role_arn,
            token_file=token_file,
            sts_url=sts_url.rstrip("/"),
        )

    def client_settings(
        self,
        region: str,
        authorities: bytes | None,
        *,
        fetches_itself: bool = True,
        client: ClientFor | None = None,
    ) -> dict[str, Any]:
        """What an obstore client must be given beyond what it reads in the environment.

        `authorities` are certificates that an STS may have, `client` says what is shown to one. A
        client that reaches only its store does not fetch the credentials of a machine or a
        container itself. Raises ConfigError when boto3 is missing, or knows no such profile.
        """
        if not fetches_itself and self.source in (
            IdentitySource.INSTANCE,
            IdentitySource.CONTAINER,
        ):
            url = self.metadata_url or None
            return {"credential_provider": MachineCredentials(os.environ, metadata_url=url)}
        match self.source:
            case IdentitySource.WEB_IDENTITY:
                return {"credential_provider": self.exchange(region, authorities, client)}
            case IdentitySource.PROFILE:
                return {"credential_provider": profile_credentials(self.profile)}
            case IdentitySource.INSTANCE:
                return {"metadata_endpoint": self.metadata_url}
        return {}

    def exchange(
        self, region: str, authorities: bytes | None, client: ClientFor | None = None
    ) -> WebIdentity:
        """The exchange of a web identity's token for credentials."""
        url = self.sts_url or f"https://sts.{region}.amazonaws.com"
        return WebIdentity(
            url, self.role_arn, self.read_token, authorities=authorities, client=client
        )

    def read_token(self) -> str:
        """The web identity token as it is now: Kubernetes replaces it."""
        return Path(self.token_file).read_text(encoding="utf-8").strip()


def implicit_identity() -> S3Identity:
    """The identity of this process's environment, for those that name none. Raises ConfigError."""
    check_implicit_identity()
    return S3Identity.of(os.environ)


def profile_credentials(profile: str) -> Callable[[], Any]:
    """A function that gives a profile's current credentials.

    Raises ConfigError when boto3 is missing, or knows no such profile.
    """
    try:
        from boto3 import Session
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            f"AWS_PROFILE needs the package boto3: {installation('aws')}", value=profile
        ) from error
    try:
        provider: Callable[[], Any] = Boto3CredentialProvider(Session(profile_name=profile))
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            "AWS_PROFILE names a profile that has no credentials", value=profile
        ) from error
    return provider


@cache
def _is_metadata_service(url: str) -> bool:
    return is_metadata_service(url, _METADATA_TIMEOUT_S)
