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
_CLUSTER_DOMAINS = ("", "cluster.local")


def address_of(place: Location, namespace: str = "") -> str:
    """Server and path. A host of one label is a Service of `namespace`, where the pods run."""
    endpoint = dict(place.options).get("endpoint", "")
    server = server_of(endpoint, namespace) if place.uri.startswith("s3://") else ""
    return f"{server}|{place.uri.rstrip('/')}"


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
    return f"{_service(host, namespace)}:{port}"


def _service(host: str, namespace: str) -> str:
    """`name.namespace` for each of the names that Kubernetes gives a Service."""
    try:
        return f"[{_plain(ipaddress.ip_address(host))}]"
    except ValueError:
        pass
    name, separator, domain = f"{host}.".partition(".svc.")
    if separator and domain.rstrip(".") in _CLUSTER_DOMAINS:
        return name
    is_one_label = "." not in host and host != "localhost"
    return f"{host}.{namespace}" if is_one_label and namespace else host


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address that is written as an IPv6 address, as itself."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
