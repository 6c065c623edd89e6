"""Random walks through edits of every field and failures around them, each repeatable from its
seed: statuses follow, conditions are true, nothing runs twice, deletions end.

`TIDELINE_SEED=<n>` walks with that seed alone, `TIDELINE_WALKS=<n>` so many, and longer ones
(`make walks`: 200).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.minio_server import MinioServer
from tideline_operator.controller import store_watch
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.api_server_fixtures import make_namespace
from tideline_operator.testing.walks.ground import WalkGround
from tideline_operator.testing.walks.walk import Walk

pytestmark = [pytest.mark.api_server, pytest.mark.minio]

WALKS, MOVES, MOVES_OF_A_SHORT_ONE = 10, 25, 3


def seeds() -> range:
    if "TIDELINE_SEED" in os.environ:
        seed = int(os.environ["TIDELINE_SEED"])
        return range(seed, seed + 1)
    return range(int(os.environ.get("TIDELINE_WALKS", WALKS)))


def moves() -> int:
    is_long = "TIDELINE_WALKS" in os.environ
    return int(os.environ.get("TIDELINE_MOVES", MOVES if is_long else MOVES_OF_A_SHORT_ONE))


@pytest.fixture(scope="module")
def ground(
    api_server: ApiServer, minio_server: MinioServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WalkGround]:
    namespace = f"walks-{secrets.token_hex(3)}"
    make_namespace(api_server.api(), namespace)
    folder = tmp_path_factory.mktemp("walks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_watch, "_STEP_S", 0.05)
        with WalkGround(api_server, namespace, minio_server, make_iceberg, folder) as ground:
            yield ground


def make_iceberg(folder: str) -> None:
    """With one snapshot."""
    IcebergModel.create_in(folder, 1)


@pytest.mark.parametrize("seed", seeds())
def test_what_is_said_is_so_after_every_move(seed: int, ground: WalkGround) -> None:
    Walk(ground, seed).run(moves())
