"""One address for all spellings of a place, for comparing servers and paths. Pure.

Two names that only a name server knows to be one machine stay two addresses. Two machines never
have one address: otherwise the owner of a server whose name only looks like another's would be
believed about the other's buckets.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from tideline.ingest.location import Location

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AWS = "amazonaws.com"
_REGION = r"[a-z]{2}(?:-[a-z]+)+-\d+"
_AWS_S3 = re.compile(
    rf"(?:s3(?:-fips)?(?:\.dualstack)?(?:[.-]{_REGION})?"
    rf"|bucket\.vpce-[0-9a-z-]+\.s3\.{_REGION}\.vpce)\.amazonaws\.com(\.cn)?"
)
"""S3 itself. Other hosts of this domain are machines, load balancers and pages of AWS's customers,
and a host that begins with a bucket's name answers for that bucket only."""
_GOOGLE = "storage.googleapis.com"
_GOOGLES = re.compile(
    r"(?:storage|commondatastorage|private|restricted|storage\.[a-z0-9-]+\.rep"
    r"|storage-[a-z0-9-]+\.p)\.googleapis\.com"
)
"""Google Cloud Storage itself; a host that begins with a bucket's name answers for that alone."""
_AZURE = re.compile(
    r"([a-z0-9]{3,24})(?:-secondary)?(?:\.privatelink)?\.(?:blob|dfs)"
    r"\.(core\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn))"
)
"""An account of Azure."""
_NUMBER = r"(?:0x[0-9a-f]*|[0-9]{1,12})"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}")
_CLUSTER_DOMAINS = ("", "cluster.local")


def address_of(place: Location, namespace: str = "") -> str:
    """Server and path. A host of one label is a Service of `namespace`, where the pods run."""
    options, uri = dict(place.options), place.uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    if scheme == "s3":
        endpoint = options.get("endpoint", "")
        is_in_path = options.get("path_style", "true") == "true"
        return f"{server_of(endpoint, namespace)}|s3://{_below(endpoint, rest, is_in_path)}"
    if scheme == "gs":
        # Google serves buckets by the protocol of S3 as well.
        endpoint = options.get("gcs_endpoint") or f"https://{_GOOGLE}"
        return f"{server_of(endpoint, namespace)}|s3://{rest}"
    if scheme == "abfss":
        authority, _, path = rest.partition("/")
        container, _, host = authority.partition("@")
        server = _azure_server(options.get("azure_endpoint", ""), host, namespace)
        return f"{server}|abfss://{container}/{path}".rstrip("/")
    return f"|{uri}"


def _below(endpoint: str, rest: str, is_in_path: bool) -> str:
    """Bucket and key as a server sees them: the path of an endpoint may name a bucket itself."""
    try:
        before = urlsplit(endpoint).path.strip("/")
    except ValueError:
        before = ""
    bucket, _, key = rest.partition("/")
    names = (before, bucket, key) if is_in_path else (bucket, before, key)
    return "/".join(filter(None, names))


def _azure_server(endpoint: str, host: str, namespace: str) -> str:
    """The account at Azure, by whatever name of its; else the server, with the account in its path
    where it has one: which account a location names makes no difference to such a server."""
    if endpoint:
        try:
            parts = urlsplit(endpoint)
            host, port, path = parts.hostname or "", parts.port, parts.path.strip("/")
        except ValueError:
            return endpoint
        port = port or _DEFAULT_PORTS.get(parts.scheme, 0)
        if port not in _DEFAULT_PORTS.values() or not _AZURE.fullmatch(host.rstrip(".")):
            return f"{server_of(endpoint, namespace)}/{path}"
    found = _AZURE.fullmatch(host.rstrip("."))
    return f"{found[1]}.{found[2]}" if found else host


def server_of(endpoint: str, namespace: str = "") -> str:
    """Host and port. All of AWS's S3 is one server: bucket names are unique there."""
    if not endpoint:
        return _AWS
    try:
        parts = urlsplit(endpoint)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return endpoint
    port = port or _DEFAULT_PORTS.get(parts.scheme, 0)
    aws = _AWS_S3.fullmatch(host)
    if aws is not None and port in _DEFAULT_PORTS.values():
        return _AWS + (aws[1] or "")
    if port in _DEFAULT_PORTS.values() and _GOOGLES.fullmatch(host):
        return _GOOGLE
    return f"{_service(host, namespace)}:{port}"


def _service(host: str, namespace: str) -> str:
    """`name.namespace` for each of the names that Kubernetes gives a Service."""
    try:
        numeric = _in_numbers(host)
        return f"[{_plain(ipaddress.ip_address(host if numeric is None else numeric))}]"
    except ValueError:
        pass
    name, separator, domain = f"{host}.".partition(".svc.")
    if separator and domain.rstrip(".") in _CLUSTER_DOMAINS:
        return name
    is_one_label = "." not in host and host != "localhost"
    return f"{host}.{namespace}" if is_one_label and namespace else host


def _in_numbers(host: str) -> int | None:
    """The IPv4 address that clients read in `127.1`, `0x7f.1` or `2130706433`; None for a name.
    Raises ValueError for numbers that are no address."""
    if not _NUMBERS.fullmatch(host):
        return None
    *bytes_before, rest = (
        int(text[2:] or "0", 16)
        if text.startswith("0x")
        else int(text, 8 if text[0] == "0" else 10)
        for text in host.split(".")
    )
    bits = 32 - 8 * len(bytes_before)
    if rest >= 1 << bits or any(number > 255 for number in bytes_before):
        raise ValueError(host)
    return int.from_bytes(bytes(bytes_before)) << bits | rest


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address that is written as an IPv6 address, as itself."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
