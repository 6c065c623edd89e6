"""Which of several claims on one place counts, and which spellings of a place are one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline_operator.controller.locations import ClaimedPlace, Locations, TableClaim
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.addresses import address_of

MINIO = "http://minio.lake.svc:9000"


def claim(
    name: str,
    uri: str,
    accepted_ms: int | None,
    endpoint: str = MINIO,
    *,
    namespace: str = "lake",
    landing: str | None = None,
    empties: bool = False,
    in_catalog: bool = False,
) -> TableClaim:
    def place(uri: str, *, is_landing: bool) -> ClaimedPlace:
        address = address_of(Location(uri, (("endpoint", endpoint),)), namespace)
        is_emptied = is_landing and empties
        return ClaimedPlace(
            address, "", uri, is_landing, accepted_ms, is_emptied, not is_landing and in_catalog
        )

    landings = () if landing is None else (place(landing, is_landing=True),)
    return TableClaim((namespace, name), (place(uri, is_landing=False), *landings), "2026-01-01")


def in_the_way(locations: Locations, claim: TableClaim) -> Key | None:
    """Whose place is in the way of a claim."""
    taken, _ = locations.claim(claim)
    return None if taken is None else taken.key


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        ("s3://lake/a", "s3://lake/a", True),
        ("s3://lake/a", "s3://lake/a/b/c", True),
        ("s3://lake/a/b/c", "s3://lake/a", True),
        ("s3://lake/a", "s3://lake/ab", False),
        ("s3://lake", "s3://lake/a", True),
        ("s3://lake/a", "s3://sea/a", False),
    ],
)
@pytest.mark.parametrize("other", ["lake", "sea"])
def test_the_table_that_was_accepted_first_has_the_place(
    first: str, second: str, conflict: bool, other: str
) -> None:
    for order in ((0, 1), (1, 0)):
        locations = Locations()
        claims = claim("one", first, 1), claim("two", second, 2, namespace=other)
        for index in order:
            locations.claim(claims[index])
        assert in_the_way(locations, claims[0]) is None
        assert in_the_way(locations, claims[1]) == (("lake", "one") if conflict else None)


@pytest.mark.parametrize("namespace", ["lake", "sea"])
def test_a_claim_that_was_never_accepted_keeps_nobody_away(namespace: str) -> None:
    locations = Locations()
    squatter = claim("squatter", "s3://lake", None, namespace=namespace)
    locations.claim(squatter)
    for accepted_ms in (None, 9):
        assert in_the_way(locations, claim("own", "s3://lake/a", accepted_ms)) is None
    assert in_the_way(locations, squatter) == ("lake", "own")


def test_an_accepted_table_that_is_moved_does_not_take_its_time_along() -> None:
    locations = Locations()
    young, old = claim("young", "s3://lake/a", 2), claim("old", "s3://lake/b", 1)
    locations.claim(young)
    locations.claim(old)
    moved = claim("old", "s3://lake/a", None)
    assert in_the_way(locations, moved) == young.key
    assert in_the_way(locations, young) is None


def test_of_two_that_are_accepted_at_once_the_first_to_say_so_has_the_place() -> None:
    locations = Locations()
    first, second = (claim(name, "s3://lake/a", None) for name in ("one", "two"))
    address = first.places[0].address
    locations.claim(second)
    locations.claim(first)
    # The second one's clock was read before the first one's.
    assert locations.accepted_ms(first.key, [address], 100) == {address: 100}
    assert locations.accepted_ms(second.key, [address], 99) == {address: 101}
    assert in_the_way(locations, claim("two", "s3://lake/a", 101)) == first.key
    assert in_the_way(locations, claim("one", "s3://lake/a", 100)) is None


def test_a_place_that_becomes_free_wakes_the_tables_that_wait_for_it() -> None:
    locations = Locations()
    old, new = claim("old", "s3://lake/a", 1), claim("new", "s3://lake/a", 2)
    locations.claim(old)
    assert in_the_way(locations, new) == ("lake", "old")
    assert locations.release(("lake", "old")) == (("lake", "new"),)
    assert locations.claim(new) == (None, ())


def test_credentials_that_were_revoked_free_the_place() -> None:
    locations = Locations()
    old, new = claim("old", "s3://lake/a", 1), claim("new", "s3://lake/a", 2, namespace="sea")
    locations.claim(old)
    assert in_the_way(locations, new) == old.key
    taken, woken = locations.claim(claim("old", "s3://lake/a", None))
    assert woken == (new.key,)
    assert taken is not None and taken.is_foreign
    assert in_the_way(locations, new) is None


def test_one_bucket_name_at_two_servers_is_two_places() -> None:
    locations = Locations()
    locations.claim(claim("old", "s3://lake/a", 1))
    assert in_the_way(locations, claim("new", "s3://lake/a", 2, endpoint="http://b")) is None


@pytest.mark.parametrize(
    ("table", "landing", "conflict"),
    [
        ("s3://lake/in", "s3://lake/in", True),
        ("s3://lake/in/a", "s3://lake/in", True),
        ("s3://lake/in", "s3://lake/in/a", True),
        ("s3://lake/inn", "s3://lake/in", False),
    ],
)
def test_a_table_and_a_landing_prefix_of_another_are_kept_apart(
    table: str, landing: str, conflict: bool
) -> None:
    reader = claim("reader", "s3://lake/x", 1, landing=landing)
    other = claim("other", table, 2)
    locations = Locations()
    locations.claim(reader)
    taken, _ = locations.claim(other)
    assert (taken is not None) == conflict
    if taken is not None:
        assert (taken.own.is_landing, taken.elder.is_landing) == (False, True)
    assert in_the_way(locations, reader) is None
    # A later landing prefix inside a table at work does not displace that table.
    locations = Locations()
    locations.claim(claim("other", table, 2))
    late = claim("reader", "s3://lake/x", 3, landing=landing)
    assert in_the_way(locations, late) == (("lake", "other") if conflict else None)
    assert in_the_way(locations, claim("other", table, 2)) is None


def test_who_only_reads_a_prefix_keeps_no_table_of_another_namespace_away() -> None:
    locations = Locations()
    locations.claim(claim("reader", "s3://mine/x", 1, namespace="sea", landing="s3://lake"))
    assert in_the_way(locations, claim("own", "s3://lake/a", 2)) is None
    locations.claim(
        claim("emptier", "s3://mine/y", 1, namespace="sea", landing="s3://lake/b", empties=True)
    )
    assert in_the_way(locations, claim("next", "s3://lake/b", 2)) == ("sea", "emptier")


def test_a_table_in_a_catalog_is_taken_within_its_namespace_only() -> None:
    locations = Locations()
    locations.claim(claim("one", "rest:http://c#a.b", 1, in_catalog=True))
    again = claim("two", "rest:http://c#a.b", 2, in_catalog=True)
    assert in_the_way(locations, again) == ("lake", "one")
    foreign = claim("two", "rest:http://c#a.b", 2, namespace="sea", in_catalog=True)
    assert in_the_way(locations, foreign) is None


@pytest.mark.parametrize("empties", ["old", "new"])
@pytest.mark.parametrize("landing", ["s3://lake/in", "s3://lake/in/deep", "s3://lake/other"])
def test_a_landing_prefix_that_is_emptied_is_not_shared(empties: str, landing: str) -> None:
    locations = Locations()
    for name, table, prefix, since_ms in (
        ("old", "s3://lake/x", "s3://lake/in", 1),
        ("new", "s3://lake/y", landing, 2),
    ):
        wanted = claim(name, table, since_ms, landing=prefix, empties=name == empties)
        shared = name == "new" and landing != "s3://lake/other"
        assert in_the_way(locations, wanted) == (("lake", "old") if shared else None)


def test_many_tables_may_read_one_landing_prefix() -> None:
    locations = Locations()
    for name in "ab":
        mine = claim(name, f"s3://lake/{name}", 1, landing="s3://lake/in")
        assert in_the_way(locations, mine) is None


def test_below_a_table_only_places_that_count_or_are_the_namespaces_own_are_seen() -> None:
    locations = Locations()
    own = claim("own", "s3://lake/a", 1)
    inner = claim("inner", "s3://lake/a/b", None)
    stranger = claim("stranger", "s3://lake/a/c", None, namespace="sea")
    for table_claim in (own, inner, stranger):
        locations.claim(table_claim)

    def seen() -> set[tuple[Key, bool]]:
        found = locations.others_in(own.key, own.places[0].address)
        return {(taken.key, taken.is_foreign) for taken in found}

    assert seen() == {(inner.key, False)}
    accepted = replace(stranger.places[0], accepted_ms=5)
    locations.claim(replace(stranger, places=(accepted,)))
    assert seen() == {(inner.key, False), (stranger.key, True)}


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("http://minio:9000", "HTTP://MINIO:9000/", True),
        ("http://minio", "http://minio:80", True),
        ("https://s3.example.com", "https://s3.example.com:443", True),
        ("https://s3.example.com", "https://s3.example.com.:443", True),
        ("http://minio:9000", "http://minio.lake:9000", True),
        ("http://minio.lake.svc:9000", "http://minio.lake.svc.cluster.local:9000", True),
        ("http://minio.lake.svc.:9000", "http://minio.lake.svc.cluster.local.:9000", True),
        ("http://minio:9000", "https://minio:9000", True),
        ("", "https://s3.eu-west-1.amazonaws.com", True),
        ("", "https://s3-us-west-2.amazonaws.com", True),
        ("", "https://bucket.vpce-0a1b-2c.s3.eu-west-1.vpce.amazonaws.com", True),
        ("https://s3.amazonaws.com", "https://s3.dualstack.us-east-1.amazonaws.com", True),
        ("https://s3.amazonaws.com", "https://s3.cn-north-1.amazonaws.com.cn", False),
        ("http://minio:9000", "http://minio:9001", False),
        ("http://minio:9000", "http://minio.sea:9000", False),
        ("http://[::1]:9000", "http://[0:0:0:0:0:0:0:1]:9000", True),
        ("http://10.0.1:9000", "http://10.0.0.1:9000", True),
        ("http://167772161:9000", "http://10.0.0.1:9000", True),
        ("http://0xa.0.0.01:9000", "http://10.0.0.1:9000", True),
        ("http://[::ffff:10.0.0.1]:9000", "http://0x0a000001:9000", True),
        ("http://10.0.0.256:9000", "http://10.0.1.0:9000", False),
        ("http://10.0.0.010:9000", "http://10.0.0.10:9000", False),
        ("http://10.0.0.1:9000", "http://[::ffff:10.0.0.1]:9000", True),
    ],
)
def test_one_endpoint_has_one_address_however_it_is_spelled(
    left: str, right: str, is_same: bool
) -> None:
    assert (at(left) == at(right)) == is_same


@pytest.mark.parametrize(
    ("victim", "lookalike"),
    [
        ("http://minio.lake.svc:9000", "http://minio.lake.svc.example.org:9000"),
        ("http://minio.lake.svc:9000", "http://minio.lake.svc.cluster.local.example.org:9000"),
        ("http://minio.lake.svc:9000", "http://minio.lake.example.org:9000"),
        ("", "http://ec2-203-0-113-9.eu-west-1.compute.amazonaws.com"),
        ("", "https://own.execute-api.eu-west-1.amazonaws.com"),
        ("", "https://mine.s3.eu-west-1.amazonaws.com"),
        ("", "http://mine.s3-website-us-east-1.amazonaws.com"),
        ("", "https://s3-website-us-east-1.amazonaws.com"),
        ("", "https://vpce-0a-1b.vpce-svc-0c.eu-west-1.vpce.amazonaws.com"),
        ("", "http://s3.amazonaws.com:9000"),
        ("", "http://s3.amazonaws.com.example.org"),
    ],
)
def test_a_server_whose_name_only_looks_like_anothers_is_another_place(
    victim: str, lookalike: str
) -> None:
    assert at(victim) != at(lookalike)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        (("gs://lake/a", ""), ("gs://lake/a/", "https://storage.googleapis.com/"), True),
        (("gs://lake/a", ""), ("gs://lake/a", "https://commondatastorage.googleapis.com"), True),
        (("gs://lake/a", ""), ("gs://lake/a", "https://private.googleapis.com:443"), True),
        (("gs://lake/a", ""), ("gs://sea/a", ""), False),
        (("gs://lake/a", ""), ("gs://lake/a", "http://storage.googleapis.com:9000"), False),
        (("gs://lake/a", ""), ("gs://lake/a", "https://storage.googleapis.com.example.org"), False),
        (("gs://lake/a", ""), ("gs://lake/a", "https://lake.storage.googleapis.com"), False),
        (("gs://lake/a", "http://gcs:80"), ("gs://lake/a", "http://gcs.lake.svc"), True),
        # Google serves its buckets by the protocol of S3 as well, and so may another server.
        (("gs://lake/a", ""), ("s3://lake/a", "https://storage.googleapis.com"), True),
        (("gs://lake/a", ""), ("s3://lake/a", ""), False),
        (("abfss://lake@own.dfs.core.windows.net/a", ""), ("az://lake/a", "own"), True),
        (("az://lake/a", "own"), ("abfss://lake@own.blob.core.windows.net/a/", ""), True),
        (("az://lake/a", "own"), ("az://lake/a", "https://own.blob.core.windows.net"), True),
        (("az://lake/a", "own"), ("az://lake/a", "https://own.dfs.core.windows.net:443"), True),
        (("az://lake/a", "own"), ("az://lake/a", "other"), False),
        (("az://lake/a", "own"), ("az://sea/a", "own"), False),
        (("az://lake/a", "own"), ("az://lake/a", "http://own.blob.core.windows.net:900"), False),
        (("az://lake/a", "own"), ("az://lake/a", "https://own.blob.core.windows.net.a.org"), False),
        # Elsewhere the path of the server has the account, whatever a location calls it.
        (("az://lake/a", "http://azurite:1/own"), ("az://lake/a", "http://azurite:1/own/"), True),
        (("az://lake/a", "http://azurite:1/own"), ("az://lake/a", "http://azurite:1/sea"), False),
        (("az://lake/a", "http://azurite:1/own"),
         ("abfss://lake@sea.dfs.core.windows.net/a", "http://azurite:1/own"), True),
    ],
)  # fmt: skip
def test_places_on_google_and_azure_have_one_address_however_they_are_spelled(
    left: tuple[str, str], right: tuple[str, str], is_same: bool
) -> None:
    assert (in_cloud(*left) == in_cloud(*right)) == is_same


@pytest.mark.parametrize("path_style", ["true", "false"])
def test_a_bucket_that_an_endpoint_names_is_no_other_place(path_style: str) -> None:
    """A server finds the bucket lake in the path before the bucket of a location."""
    plain = address_of(Location("s3://lake/people/a", (("endpoint", MINIO),)), "lake")
    uri = "s3://people/a" if path_style == "true" else "s3://lake/a"
    below = "lake" if path_style == "true" else "people"
    options = (("endpoint", f"{MINIO}/{below}/"), ("path_style", path_style))
    assert address_of(Location(uri, options), "lake") == plain
    other = (("endpoint", f"{MINIO}/other"), ("path_style", path_style))
    assert address_of(Location(uri, other), "lake") != plain


def in_cloud(uri: str, server: str) -> str:
    """The address of a place; `server` is an endpoint, or an account of Azure."""
    options = {"allow_http": "true"} if server.startswith("http:") else {}
    if uri.startswith("az:"):
        options["azure_account"] = "own" if "/" in server else server
    if "/" in server:
        names = {"gs": "gcs_endpoint", "s3": "endpoint"}
        options[names.get(uri.partition(":")[0], "azure_endpoint")] = server
    place = StoreLocation.of(uri, options)
    return address_of(Location(place.uri, place.options), "lake")


def at(endpoint: str) -> str:
    options = (("endpoint", endpoint),) if endpoint else ()
    return address_of(Location("s3://lake/a", options), "lake")
