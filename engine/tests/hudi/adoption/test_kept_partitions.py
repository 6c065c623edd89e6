"""What `tideline adopt` says of each partition of the metadata table: kept or dropped, and what it
takes of a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tideline.hudi.adoption.adoption_report import AdoptionReport, read_adoption_report
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.open_table import open_table
from tideline.hudi.table.table_config import METADATA_PARTITIONS
from tideline.testing.small_table import QUIET, SmallTable, batch

ALL = ("bloom_filters", "column_stats", "partition_stats", "record_index", "secondary_index_v")
NEEDED_FIRST = ("column_stats", "record_index", "bloom_filters", "partition_stats",
                "secondary_index_v")  # fmt: skip


@pytest.fixture
def small() -> Iterator[SmallTable]:
    """A table of version 9 with every index, in three files of two partitions."""
    table = SmallTable.in_memory(table_version=9)
    table.write("insert", batch(range(6), 1), options=QUIET)
    table.write("insert", batch([8], 2), options=QUIET)
    for name in NEEDED_FIRST:
        table.lake().indexes().create(name)
    yield table
    table.forget()


def report(small: SmallTable) -> AdoptionReport:
    return read_adoption_report(small.location, small.store(), small.clock)


def said_of(small: SmallTable) -> dict[str, tuple[str, str]]:
    """The consequences that begin with, or drop, a partition: what, and what to do."""
    found = {}
    for consequence in report(small).consequences:
        words = consequence.what.removeprefix("the first commit here drops ")
        name = words.removeprefix("commits keep ").split()[0].rstrip(":")
        if name in ALL or name.startswith(("expr_", "secondary_", "other_")):
            found[name] = consequence.what, consequence.do
    return found


def with_partitions(small: SmallTable, *names: str, **defined: object) -> None:
    """What Hudi's SQL would have made besides."""
    table = open_table(small.location, small.clock, small.store())
    listed = {*table.config.metadata_partitions, *names}
    table.properties.update({METADATA_PARTITIONS: ",".join(sorted(listed))})
    content = json.loads(table.store.get(INDEX_DEFINITIONS_PATH))
    content["indexDefinitions"] |= defined
    table.store.put(INDEX_DEFINITIONS_PATH, json.dumps(content).encode())


def test_each_says_what_a_commit_reads_and_writes_for_it(small: SmallTable) -> None:
    said = said_of(small)
    assert tuple(sorted(said)) == ALL
    what = {name: text for name, (text, _) in said.items()}
    assert what["column_stats"] == (
        "commits keep column_stats: each reads nothing, for tasks measure what they write, and "
        "writes 6 rows for each new file"
    )
    assert what["partition_stats"] == (
        "commits keep partition_stats: each reads 6 rows of column_stats for each file of the "
        "partitions that it touches, which have 2 files on average, and writes 6 rows for each of "
        "these partitions"
    )
    assert "reads the keys of the file groups that it touches, before it" in what["record_index"]
    assert what["record_index"].endswith("in 10 file groups of the index")
    assert "reads the keys and the values of v of the file groups" in what["secondary_index_v"]
    assert what["secondary_index_v"].endswith("in 10 file groups of the index")
    assert "the filter in the footer of each new base file" in what["bloom_filters"]
    assert said["record_index"][1].endswith("drop it: tideline index drop record_index")


def test_sizes_are_those_of_the_newest_files(small: SmallTable) -> None:
    state = report(small).state
    assert state is not None
    assert state.files is not None
    mean = state.files.size_bytes / state.files.file_groups
    assert f"of {mean / 1000:.1f} kB on average" in said_of(small)["record_index"][0]


def test_an_expression_index_is_dropped_and_so_is_what_cannot_be_followed(
    small: SmallTable,
) -> None:
    with_partitions(
        small,
        "expr_index_e",
        "secondary_index_w",
        "other_index",
        secondary_index_w={"sourceFields": ["when"], "version": "V2"},
    )
    said = said_of(small)
    assert said["expr_index_e"][0] == (
        "the first commit here drops expr_index_e: queries of Hudi 1.2 lose rows where a table has "
        "an expression index"
    )
    assert "run CREATE INDEX after the last commit" in said["expr_index_e"][1]
    assert (
        "drops secondary_index_w: the table has no column when: where it was"
        in said["secondary_index_w"][0]
    )
    assert "drops other_index: it is of no kind that is kept" in said["other_index"][0]
    # It is as it says.
    notes = small.write("upsert", batch([1], 3), options=QUIET).notes
    listed = open_table(small.location, small.clock, small.store()).config.metadata_partitions
    assert set(listed) == {*ALL, "files"}
    (note,) = [text for text in notes if text.startswith("dropped")]
    assert "expr_index_e" in note


def test_what_is_looked_up_in_one_that_goes_goes_with_it(small: SmallTable) -> None:
    content = json.loads(small.store().get(INDEX_DEFINITIONS_PATH))
    content["indexDefinitions"]["column_stats"]["sourceFields"] = []
    small.store().put(INDEX_DEFINITIONS_PATH, json.dumps(content).encode())
    said = said_of(small)
    assert said["column_stats"][0].endswith("no definition lists its columns")
    assert said["partition_stats"][0].endswith("it is of no use without column_stats")
    assert said["record_index"][0].startswith("commits keep record_index: ")


def test_the_json_form_has_each(small: SmallTable) -> None:
    state = report(small).to_json_object()["state"]
    kept = {item["name"]: item["kept"] for item in state["metadata_partitions"]}
    assert kept == dict.fromkeys(ALL, True)
    assert {"name", "kept", "reads", "writes", "reason"} == set(state["metadata_partitions"][0])
