"""Stores that ignore conditions are refused by name."""

import pytest

from tideline.errors import ConfigError, StorageUnavailable
from tideline.storage.memory import MemoryStore
from tideline.storage.object_store import AlreadyExists, Changed, Written
from tideline.storage.probe import probe_conditional_writes
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply


class IgnoresIfNoneMatch(MemoryStore):
    """As some S3 servers do: the header is accepted and means nothing."""

    def put_if_absent(
        self,
        path: str,
        body: bytes,
        *,
        token: str | None = None,  # noqa: ARG002
    ) -> Written | AlreadyExists:
        return self.put(path, body)


class IgnoresIfMatch(MemoryStore):
    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:  # noqa: ARG002
        return self.put(path, body)


@pytest.mark.parametrize(
    ("kind", "header"), [(IgnoresIfNoneMatch, "If-None-Match"), (IgnoresIfMatch, "If-Match")]
)
def test_a_store_that_ignores_a_condition_is_refused(kind: type[MemoryStore], header: str) -> None:
    store = kind("careless")
    with pytest.raises(ConfigError, match=rf"memory://careless.*\({header}\)"):
        probe_conditional_writes(store)
    assert [*store.list()] == []
    MemoryStore.forget("careless")


def test_the_probe_leaves_nothing_behind() -> None:
    store = MemoryStore("probed")
    probe_conditional_writes(store)
    assert [*store.list()] == []


def test_a_swap_whose_reply_was_lost_is_no_reason_to_refuse() -> None:
    inner = MemoryStore("probe-lost")
    plan = FaultPlan(lost_reply_of_conditional_write=3, lost_reply=LostReply.REFUSED)
    probe_conditional_writes(FaultyStore(inner, plan))
    MemoryStore.forget("probe-lost")


def test_a_store_that_is_away_is_not_called_wrong() -> None:
    store = FaultyStore(MemoryStore("away"), FaultPlan(unavailable_calls=frozenset(range(1, 9))))
    with pytest.raises(StorageUnavailable):
        probe_conditional_writes(store)
