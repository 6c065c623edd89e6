"""The recipe of docs/streams.md: a batch that Spark gives twice is written once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tideline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[4] / "docs" / "streams.md"


def recipe(uri: str) -> Any:
    """The function of the page, writing to `uri`."""
    found = re.search(r"^target = .*?(?=^spark = )", PAGE.read_text(), re.M | re.S)
    assert found is not None
    code = found[0].replace("lake/copy", uri)
    assert uri in code
    names: dict[str, Any] = {"tideline": tideline}
    exec(code, names)
    return names["write"]


def test_a_batch_that_is_given_twice_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    source = SmallTable.create(StoreLocation.of(tmp_path / "orders"))
    copy = SmallTable.create(StoreLocation.of(tmp_path / "copy"))
    write = recipe(copy.location.uri)
    given: list[int] = []
    tideline.register(spark)

    def commits() -> int:
        return len(copy.lake().timeline().of(*COMMIT_ACTIONS).completed())

    def run(checkpoint: str, *, dies: bool = False) -> None:
        def each(frame: DataFrame, number: int) -> None:
            given.append(number)
            write(frame.select("id", "part", "v"), number)
            if dies:
                raise RuntimeError("killed")

        orders = spark.readStream.format("tideline").load(source.location.uri)
        writer = orders.writeStream.foreachBatch(each).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
        query.awaitTermination()

    source.write("insert", batch(range(4), 1))
    with pytest.raises(Exception, match="killed"):
        run("first", dies=True)
    assert commits() == 1
    run("first")
    assert given == [0, 0]
    assert commits() == 1
    source.write("insert", batch([7, 8], 2))
    run("first")
    assert commits() == 2
    assert copy.values() == source.values()
    # The batches of another query are others, though their numbers are the same.
    run("second")
    assert given == [0, 0, 1, 0]
    assert commits() == 3
