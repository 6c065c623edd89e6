"""Which network addresses a process connects to on behalf of somebody else. Pure.

An endpoint that a resource names is resolved by the process that connects to it, and its network
reaches more than that of the resource's author: the metadata service of the machine, ports of the
process itself, Services of other namespaces. So an address is checked after the name was resolved:

1. Only addresses of the public internet are connected to.
2. Ranges that the process's own configuration opens are added. An address of this machine, of its
   link or of a metadata service is opened only by a range that lies within theirs: 0.0.0.0/0 opens
   none of them.
3. A Service of the author's own namespace may have a private address: its author reaches it too.

An IPv6 address that stands for an IPv4 address is checked as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)

from tideline.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_METADATA = tuple(
    ip_network(text)
    for text in (
        "169.254.169.254/32",
        "169.254.170.2/32",
        "169.254.170.23/32",
        "fd00:ec2::/32",  # Amazon
        "fd20:ce::254/128",  # Google
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle
    )
)
_KINDS: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(text) for text in texts))
    for kind, texts in (
        ("a loopback address", ("127.0.0.0/8", "::1/128")),
        ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
        ("an unspecified address", ("0.0.0.0/8", "::/128")),
        ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
        ("a private address", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")),
        ("a private address", ("fec0::/10", "64:ff9b:1::/48")),
        ("an address shared by a carrier's customers", ("100.64.0.0/10",)),
        ("an address for benchmarks", ("198.18.0.0/15", "2001:2::/48")),
        ("a reserved address", ("240.0.0.0/4", "192.0.0.0/24")),
    )
)
_METADATA_KIND = "the address of a metadata service"
_OPENED_BY_NAME = (_METADATA_KIND, "a loopback address", "a link-local address",
                   "an unspecified address")  # fmt: skip
_OF_SERVICES = ("a private address", "an address shared by a carrier's customers")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")


@dataclass(frozen=True, slots=True)
class AddressRules:
    """`opened` are ranges that are connected to besides the public internet, `cluster_domain` is
    that of Services; `own_services` is the third rule of the module."""

    opened: tuple[Network, ...] = ()
    own_services: bool = True
    cluster_domain: str = "cluster.local"

    @classmethod
    def of(
        cls, ranges: str, *, own_services: bool = True, cluster_domain: str = "cluster.local"
    ) -> AddressRules:
        """With `ranges` such as `10.96.0.0/12, fd00:10::/64`. Raises ConfigError."""
        opened = tuple(_network(text.strip()) for text in ranges.split(",") if text.strip())
        return cls(opened, own_services, cluster_domain)

    def refusal(self, address: Address, *, is_own_service: bool = False) -> str | None:
        """What the address is that is not connected to, such as `a loopback address`; None for one
        that is."""
        for meaning in _meanings(address):
            kind = _kind(meaning)
            if kind is None or self._opens(meaning, kind):
                continue
            if is_own_service and self.own_services and kind in _OF_SERVICES:
                continue
            return kind
        return None

    def is_own_service(self, host: str, canonical: str, namespace: str) -> bool:
        """Whether `host` names a Service of the namespace, and `canonical`, the name that its
        addresses have, is still that Service: one of type ExternalName is another name."""
        labels = _plain(host).split(".")
        if len(labels) < 3 or not labels[0] or labels[1] != namespace:
            return False
        short = ".".join((labels[0], namespace, "svc"))
        names = (short, f"{short}.{_plain(self.cluster_domain)}")
        return _plain(host) in names and _plain(canonical) in names

    def _opens(self, address: Address, kind: str) -> bool:
        holding = [network for network in self.opened if address in network]
        if kind not in _OPENED_BY_NAME:
            return bool(holding)
        networks = _METADATA if kind == _METADATA_KIND else _networks(kind)
        return any(_is_within(value, network) for value in holding for network in networks)


def _meanings(address: Address) -> tuple[Address, ...]:
    """The address, or those that it stands for, each checked."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address in _SIX_TO_FOUR and address.sixtofour is not None:
        return (address.sixtofour,)
    if address in _TEREDO and address.teredo is not None:
        return address.teredo
    return (address,)


def _kind(address: Address) -> str | None:
    """What an address is that is not of the public internet; None for one that is."""
    if any(address in network for network in _METADATA):
        return _METADATA_KIND
    for kind, networks in _KINDS:
        if any(address in network for network in networks):
            return kind
    return None if address.is_global and not address.is_reserved else "a reserved address"


def _networks(kind: str) -> tuple[Network, ...]:
    return tuple(network for known, networks in _KINDS if known == kind for network in networks)


def _is_within(inner: Network, outer: Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigError(
            f"not a range of addresses: {error}; write one like 10.96.0.0/12", value=text
        ) from error
