"""Tables of others around or below a place where a table is to be created."""

from __future__ import annotations

import itertools

import pytest

from tideline.errors import StorageUnavailable
from tideline.ingest.operation import Place
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline_operator.foreign_tables import table_in_the_way

_numbers = itertools.count()
HUDI, ICEBERG = ".hoodie/hoodie.properties", "metadata/00001-a.metadata.json"


def open_place(place: Place) -> ObjectStore:
    return StoreLocation.of(place.uri).open()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (f"a/{HUDI}", "it lies in the Hudi table at memory://{}/a;"),
        (HUDI, "it lies in the Hudi table at memory://{};"),
        (f"a/b/{ICEBERG}", "it lies in the Iceberg table at memory://{}/a/b;"),
        (f"a/b/people/x/{HUDI}", "the Hudi table in 'x' lies in it;"),
        (f"a/b/people/x/y/{ICEBERG}", "the Iceberg table in 'x/y' lies in it;"),
        (f"a/b/peoples/{HUDI}", None),
        (f"a/c/{ICEBERG}", None),
        ("a/b/people/files.csv", None),
        ("a/metadata/notes.json", None),
    ],
)
def test_a_table_around_or_below_is_named(found: str, words: str | None) -> None:
    bucket = f"bucket{next(_numbers)}"
    open_place(Place(f"memory://{bucket}")).put(found, b"")
    answer = table_in_the_way(Place(f"memory://{bucket}/a/b/people"), open_place)
    if words is None:
        assert answer is None
    else:
        assert answer is not None and answer.startswith(words.format(bucket))


def test_folders_above_that_may_not_be_read_are_passed_over() -> None:
    place = Place(f"memory://bucket{next(_numbers)}/a/people")

    def open_below(wanted: Place) -> ObjectStore:
        if wanted != place:
            return _Refusing()  # type: ignore[return-value]
        return open_place(wanted)

    assert table_in_the_way(place, open_below) is None


class _Refusing:
    """A place that these credentials may not read."""

    def get(self, path: str) -> bytes:
        raise StorageUnavailable("access denied", path=path)
