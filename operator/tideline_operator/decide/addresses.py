"""One address for all spellings of a place, for comparing servers and paths. Pure.

Two names that only a name server knows to be one machine stay two addresses.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tideline.ingest.operation.operation import Place

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AWS = "amazonaws.com"


def address_of(place: Place, namespace: str = "") -> str:
    """Server and path. A host of one label is a Service of `namespace`, where the pods run."""
    endpoint = dict(place.options).get("endpoint", "")
    server = server_of(endpoint, namespace) if place.uri.startswith("s3://") else ""
    return f"{server}|{place.uri.rstrip('/')}"


def server_of(endpoint: str, namespace: str = "") -> str:
    """Host and port. All of AWS is one server: bucket names are unique there."""
    if not endpoint:
        return _AWS
    try:
        parts = urlsplit(endpoint)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return endpoint
    if host.endswith((f".{_AWS}", f".{_AWS}.cn")):
        return _AWS if host.endswith(_AWS) else f"{_AWS}.cn"
    port = port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return f"{_service(host, namespace)}:{port}"


def _service(host: str, namespace: str) -> str:
    """`name.namespace` for each of the names that Kubernetes gives a Service."""
    try:
        return f"[{ipaddress.ip_address(host)}]"
    except ValueError:
        pass
    name, separator, _ = f"{host}.".partition(".svc.")
    if separator:
        return name
    is_one_label = "." not in host and host != "localhost"
    return f"{host}.{namespace}" if is_one_label and namespace else host
