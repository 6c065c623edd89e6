"""How many buckets a table has, from the keys in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.index.bucket import BUCKETS_MAX, BucketHash
from tideline.hudi.index.bucket_count import StoredKey, fitting_counts, misplaced_key


def stored(keys: list[str], buckets: BucketHash) -> list[StoredKey]:
    return [StoredKey("p", buckets.bucket("p", key), key, "file") for key in keys]


def test_enough_keys_leave_one_number() -> None:
    for count in (1, 4, 7, 256, 1000):
        keys = stored([f"key-{number * 7919}" for number in range(200)], BucketHash(count))
        highest = max(key.bucket for key in keys)
        assert fitting_counts(keys, (), at_least=highest + 1) == (count,)


def test_few_keys_leave_several_and_none_leave_any() -> None:
    keys = stored(["1"], BucketHash(4))
    found = fitting_counts(keys, (), at_least=1)
    assert found is not None and len(found) > 1 and 4 in found
    assert fitting_counts([], (), at_least=1) is None
    # The hash of "1" is 80: in bucket 80 it says nothing but that there are more than 80.
    assert fitting_counts(stored(["1"], BucketHash(256)), (), at_least=81) is None


def test_a_key_whose_hash_is_below_its_bucket_fits_no_number() -> None:
    assert fitting_counts([StoredKey("p", 81, "1", "file")], (), at_least=82) == ()


def test_another_hash_fits_no_number() -> None:
    whole = stored([f"id:{n * 7919},line:{n}" for n in range(50)], BucketHash(8, ("id",)))
    assert fitting_counts(whole, (), at_least=8) == ()
    assert fitting_counts(whole, ("id",), at_least=8) == (8,)


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=30),
    st.integers(1, BUCKETS_MAX),
)
@settings(max_examples=100)
def test_the_true_number_always_fits(keys: list[str], count: int) -> None:
    placed = stored(keys, BucketHash(count))
    highest = max(key.bucket for key in placed)
    found = fitting_counts(placed, (), at_least=highest + 1)
    assert found is None or count in found
    assert misplaced_key(placed, BucketHash(count)) is None


def test_the_first_misplaced_key_is_named() -> None:
    placed = stored(["a", "b", "c"], BucketHash(4))
    wrong = StoredKey("p", (placed[1].bucket + 1) % 4, "b", "file")
    assert misplaced_key([placed[0], wrong, placed[2]], BucketHash(4)) == wrong
