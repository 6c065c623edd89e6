"""Which addresses are connected to for others."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tideline.errors import ConfigError
from tideline.trust.addresses import AddressRules

METADATA = "the address of a metadata service"
LOOPBACK, LINK = "a loopback address", "a link-local address"
PRIVATE, CARRIER = "a private address", "an address shared by a carrier's customers"
UNSPECIFIED, MULTICAST = "an unspecified address", "a multicast address"
BENCHMARK, RESERVED = "an address for benchmarks", "a reserved address"


def refusal(text: str, ranges: str = "", *, is_own_service: bool = False) -> str | None:
    rules = AddressRules.of(ranges)
    return rules.refusal(ip_address(text), is_own_service=is_own_service)


@pytest.mark.parametrize(
    "text", ["52.219.1.1", "8.8.8.8", "2600:1fa0::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]
)
def test_the_public_internet_is_connected_to(text: str) -> None:
    assert refusal(text) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("127.0.0.1", LOOPBACK),
        ("127.255.255.254", LOOPBACK),
        ("::1", LOOPBACK),
        ("169.254.0.1", LINK),
        ("fe80::1", LINK),
        ("fe80::1%eth0", LINK),
        ("169.254.169.254", METADATA),
        ("169.254.170.2", METADATA),
        ("169.254.170.23", METADATA),
        ("fd00:ec2::254", METADATA),
        ("fd00:ec2::23", METADATA),
        ("fd20:ce::254", METADATA),
        ("100.100.100.200", METADATA),
        ("168.63.129.16", METADATA),
        ("192.0.0.192", METADATA),
        ("0.0.0.0", UNSPECIFIED),
        ("0.1.2.3", UNSPECIFIED),
        ("::", UNSPECIFIED),
        ("224.0.0.1", MULTICAST),
        ("ff02::1", MULTICAST),
        ("10.0.0.1", PRIVATE),
        ("10.255.255.255", PRIVATE),
        ("172.16.0.1", PRIVATE),
        ("172.31.255.255", PRIVATE),
        ("192.168.0.1", PRIVATE),
        ("fd12::1", PRIVATE),
        ("fc00::1", PRIVATE),
        ("fec0::1", PRIVATE),
        ("64:ff9b:1::a00:1", PRIVATE),
        ("100.64.0.1", CARRIER),
        ("100.127.255.255", CARRIER),
        ("198.18.0.1", BENCHMARK),
        ("198.19.255.255", BENCHMARK),
        ("240.0.0.1", RESERVED),
        ("255.255.255.255", RESERVED),
        ("192.0.2.1", RESERVED),
        ("203.0.113.9", RESERVED),
        ("2001:db8::1", RESERVED),
        ("::10.0.0.1", RESERVED),
        ("::ffff:10.0.0.1", PRIVATE),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("::ffff:169.254.169.254", METADATA),
        ("64:ff9b::169.254.169.254", METADATA),
        ("64:ff9b::10.0.0.1", PRIVATE),
        ("2002:a00:1::1", PRIVATE),  # 6to4 of 10.0.0.1
        ("2002:7f00:1::1", LOOPBACK),
        ("2001:0:a00:1::f7f7:f7f7", PRIVATE),  # Teredo, the server is 10.0.0.1
        ("2001:0:808:808::f5ff:fffe", PRIVATE),  # Teredo, the client is 10.0.0.1
    ],
)
def test_what_is_not_public_is_refused_with_its_kind(text: str, kind: str) -> None:
    assert refusal(text) == kind


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("10.96.0.7", "10.96.0.0/12"),
        ("10.96.0.7", "192.168.0.0/16, 10.96.0.0/12"),
        ("10.1.1.1", "0.0.0.0/0"),
        ("::ffff:10.96.0.7", "10.96.0.0/12"),
        ("100.64.3.4", "100.64.0.0/10"),
        ("fd12::9", "fd12::/64"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("::1", "::1/128"),
        ("169.254.20.10", "169.254.20.10/32"),
        ("169.254.169.254", "169.254.169.254/32"),
        ("fd00:ec2::254", "fd00:ec2::254/128"),
    ],
)
def test_a_range_that_is_opened_is_connected_to(text: str, ranges: str) -> None:
    assert refusal(text, ranges) is None


@pytest.mark.parametrize(
    ("text", "ranges", "kind"),
    [
        ("10.97.0.1", "10.96.0.0/16", PRIVATE),
        ("127.0.0.1", "0.0.0.0/0", LOOPBACK),
        ("127.0.0.1", "126.0.0.0/7", LOOPBACK),
        ("169.254.1.1", "0.0.0.0/0", LINK),
        ("169.254.169.254", "0.0.0.0/0", METADATA),
        ("169.254.169.254", "169.254.0.0/16", METADATA),
        ("100.100.100.200", "100.64.0.0/10", METADATA),
        ("fd00:ec2::254", "fc00::/7", METADATA),
        ("::1", "::/0", LOOPBACK),
        ("fe80::1", "::/0", LINK),
        ("0.0.0.0", "0.0.0.0/0", UNSPECIFIED),
    ],
)
def test_this_machine_its_link_and_metadata_are_opened_only_by_their_own_ranges(
    text: str, ranges: str, kind: str
) -> None:
    assert refusal(text, ranges) == kind


@pytest.mark.parametrize("text", ["10.96.0.7", "fd12::9", "100.64.3.4", "52.219.1.1"])
def test_a_service_of_the_own_namespace_may_have_a_private_address(text: str) -> None:
    assert refusal(text, is_own_service=True) is None


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "::1", "169.254.169.254", "169.254.3.4", "fd00:ec2::254", "224.0.0.1"]
)
def test_a_service_is_no_way_to_this_machine_or_its_link(text: str) -> None:
    assert refusal(text, is_own_service=True) is not None


def test_services_of_the_own_namespace_can_be_closed() -> None:
    rules = AddressRules.of("", own_services=False)
    assert rules.refusal(ip_address("10.96.0.7"), is_own_service=True) == PRIVATE


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("minio.lake.svc", "minio.lake.svc.cluster.local"),
        ("minio.lake.svc.cluster.local", "minio.lake.svc.cluster.local"),
        ("MinIO.lake.svc.cluster.local.", "minio.lake.svc.cluster.local."),
        ("minio.lake.svc", "minio.lake.svc"),
    ],
)
def test_a_service_is_known_by_its_name_before_and_after_resolution(
    host: str, canonical: str
) -> None:
    assert AddressRules().is_own_service(host, canonical, "lake")


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("minio.other.svc", "minio.other.svc.cluster.local"),
        ("minio.lake.svc", "db.internal"),  # ExternalName
        ("minio.lake.svc", "minio.other.svc.cluster.local"),
        ("minio.lake.svc", "other.lake.svc.cluster.local"),
        ("minio.lake.svc.evil.example", "minio.lake.svc.evil.example"),
        ("minio.lake.svc", "minio.lake.svc.evil.example"),
        ("minio.lake", "minio.lake.svc.cluster.local"),
        ("lake.svc", "lake.svc.cluster.local"),
        (".lake.svc", ".lake.svc"),
        ("a.minio.lake.svc", "a.minio.lake.svc.cluster.local"),
        ("10.96.0.7", "10.96.0.7"),
    ],
)
def test_other_names_are_no_service_of_the_namespace(host: str, canonical: str) -> None:
    assert not AddressRules().is_own_service(host, canonical, "lake")


def test_the_domain_of_services_is_that_of_the_cluster() -> None:
    rules = AddressRules(cluster_domain="corp.example")
    assert rules.is_own_service("minio.lake.svc", "minio.lake.svc.corp.example", "lake")
    assert not rules.is_own_service("minio.lake.svc", "minio.lake.svc.cluster.local", "lake")


@pytest.mark.parametrize("ranges", ["10.0.0.1/8", "lake", "10.0.0.0/33", "10.0.0.0-10.0.0.9"])
def test_a_range_that_is_none_is_named(ranges: str) -> None:
    with pytest.raises(ConfigError, match="not a range of addresses"):
        AddressRules.of(ranges)
