"""Arguments that several commands share: the table's URI, how to reach its store, and --json."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from tideline.cli.command import SharedOption
from tideline.errors import ConfigError
from tideline.settings.registry import all_settings
from tideline.settings.setting import SettingPlace, Support
from tideline.storage.egress.client_files import CERTIFICATE_VARIABLE, KEY_VARIABLE
from tideline.storage.s3.request_headers import VARIABLES, Checksum, Encryption

_Function = TypeVar("_Function", bound=Callable[..., Any])

_STORAGE_OPTIONS = (
    click.option(
        "--endpoint",
        cls=SharedOption,
        envvar=["TIDELINE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
        metavar="URL",
        help="S3 endpoint, for anything but AWS itself.",
    ),
    click.option(
        "--region",
        cls=SharedOption,
        envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
        help="S3 region.",
    ),
    click.option(
        "--gcs-endpoint",
        cls=SharedOption,
        envvar="TIDELINE_GCS_ENDPOINT",
        metavar="URL",
        help="Endpoint of gs:// locations, for anything but Google itself.",
    ),
    click.option(
        "--azure-endpoint",
        cls=SharedOption,
        envvar="TIDELINE_AZURE_ENDPOINT",
        metavar="URL",
        help="Endpoint of an account of Azure, for anything but Azure itself.",
    ),
    click.option(
        "--azure-account",
        cls=SharedOption,
        envvar=["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"],
        metavar="NAME",
        help="Account of az:// locations that name none.",
    ),
    click.option(
        "--path-style/--virtual-host-style",
        cls=SharedOption,
        default=None,
        envvar="TIDELINE_S3_PATH_STYLE",
        help="How the bucket appears in S3 addresses.",
    ),
    click.option(
        "--allow-http/--https-only",
        cls=SharedOption,
        default=None,
        envvar=["TIDELINE_ALLOW_HTTP", "TIDELINE_S3_ALLOW_HTTP"],
        help="Whether stores may be used without TLS.",
    ),
    click.option(
        "--ca-bundle",
        cls=SharedOption,
        envvar="AWS_CA_BUNDLE",
        metavar="FILE",
        help="Certificate authorities to trust, PEM.",
    ),
    click.option(
        "--client-certificate",
        cls=SharedOption,
        envvar=CERTIFICATE_VARIABLE,
        metavar="FILE",
        help="Certificate to show to a server of S3 that demands one, PEM.",
    ),
    click.option(
        "--client-key",
        cls=SharedOption,
        envvar=KEY_VARIABLE,
        metavar="FILE",
        help="Key of that certificate, PEM; without it, the key is in the same file.",
    ),
    click.option(
        "--sse",
        cls=SharedOption,
        envvar=VARIABLES["sse"],
        metavar="|".join(word.value for word in Encryption),
        help="How S3 encrypts what is written.",
    ),
    click.option(
        "--sse-kms-key-id",
        cls=SharedOption,
        envvar=VARIABLES["sse_kms_key_id"],
        metavar="KEY",
        help="Key of the KMS for it; a bucket's own without it.",
    ),
    click.option(
        "--sse-bucket-key/--no-sse-bucket-key",
        cls=SharedOption,
        default=None,
        envvar=VARIABLES["sse_bucket_key"],
        help="Whether one key of the bucket saves requests to the KMS.",
    ),
    click.option(
        "--requester-pays/--owner-pays",
        cls=SharedOption,
        default=None,
        help="Whether requests to S3 are paid by who makes them.",
    ),
    click.option(
        "--checksum-algorithm",
        cls=SharedOption,
        envvar=VARIABLES["checksum_algorithm"],
        metavar="|".join(word.value for word in Checksum),
        help="Checksum that S3 gets with each write, as object lock demands.",
    ),
)


def storage_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of connections to stores; the command gets them as one mapping, `storage`."""

    @wraps(command)
    def gathered(
        *args: Any,
        endpoint: str | None,
        region: str | None,
        path_style: bool | None,
        allow_http: bool | None,
        ca_bundle: str | None,
        client_certificate: str | None,
        client_key: str | None,
        gcs_endpoint: str | None,
        azure_endpoint: str | None,
        azure_account: str | None,
        sse: str | None,
        sse_kms_key_id: str | None,
        sse_bucket_key: bool | None,
        requester_pays: bool | None,
        checksum_algorithm: str | None,
        **kwargs: Any,
    ) -> None:
        given = {
            "gcs_endpoint": gcs_endpoint,
            "azure_endpoint": azure_endpoint,
            "azure_account": azure_account,
            "endpoint": endpoint,
            "region": region,
            "path_style": _flag(path_style),
            "allow_http": _flag(allow_http),
            "ca_bundle": ca_bundle,
            "client_certificate": client_certificate,
            "client_key": client_key,
            "sse": sse,
            "sse_kms_key_id": sse_kms_key_id,
            "sse_bucket_key": _flag(sse_bucket_key),
            "requester_pays": _flag(requester_pays),
            "checksum_algorithm": checksum_algorithm,
        }
        storage = {name: value for name, value in given.items() if value is not None}
        command(*args, storage=storage, **kwargs)

    decorated: Callable[..., None] = gathered
    for option in reversed(_STORAGE_OPTIONS):
        decorated = option(decorated)
    return decorated


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add URI, the storage options and --json: the arguments `uri`, `storage` and `as_json`."""
    return click.argument("uri")(json_option(storage_options(command)))


def json_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --json, the argument `as_json`."""
    return click.option(
        "--json", "as_json", cls=SharedOption, is_flag=True, help="Print JSON for machines."
    )(command)


class LimitType(click.ParamType[int | None]):
    """How many to print at most: a number, 0 among them, or "all", which is None."""

    name = "N|all"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        text = str(value).strip().lower()
        if text == "all":
            return None
        if not (text.isascii() and text.isdecimal()):
            self.fail(f"{value!r} is neither a number of 0 or more nor all", param, ctx)
        return int(text)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return self.name


def limit_option(help: str) -> Callable[[_Function], _Function]:
    """Add --limit, the argument `limit`: None for no limit."""
    return click.option("--limit", type=LimitType(), default="20", show_default=True, help=help)


def parse_pairs(pairs: tuple[str, ...], *, option: str) -> dict[str, str]:
    """`name=value` arguments as a mapping. Raises ConfigError for one without '='."""
    parsed = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE", value=pair)
        parsed[name.strip()] = value.strip()
    return parsed


def complete_settings(
    place: SettingPlace,
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What a shell offers for the NAME of an option that takes settings."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        return [
            f"{setting.name}="
            for setting in all_settings()
            if setting.support is Support.HONOURED
            and place in setting.places
            and setting.name.startswith(incomplete)
        ]

    return complete


def split_names(text: str | None) -> tuple[str, ...]:
    """Comma-separated column names."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flag(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()
