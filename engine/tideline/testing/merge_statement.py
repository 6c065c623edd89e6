"""MERGE INTO of Hudi's SQL with the rows of a batch: it updates stored keys and inserts others."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tideline.testing.hudi_peer import HudiPeer


def merge_into(peer: HudiPeer, uri: str, rows: pa.Table, options: Mapping[str, str]) -> None:
    """Merge rows of a `SmallTable`. The options stay set in the peer's session.

    Raises PeerFailureError.
    """
    name = peer.table_at(uri)
    for option, text in options.items():
        peer.run_statement(f"set {option}={text}")
    listed = ", ".join(f"('{id_}', '{part}', {v}L)" for id_, part, v in _values(rows))
    peer.run_statement(
        f"merge into {name} as t using (select * from values {listed} as x(id, part, v)) as s "
        "on t.id = s.id and t.part = s.part "
        "when matched then update set * when not matched then insert *"
    )


def _values(rows: pa.Table) -> zip[tuple[str, str, int]]:
    return zip(*(rows[name].to_pylist() for name in ("id", "part", "v")), strict=True)
