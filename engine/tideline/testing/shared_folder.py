"""A table in a folder that Hudi and Tideline write in turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import SmallTable


@dataclass
class SharedFolder:
    """Where it lies, and the peer that writes to it."""

    path: Path
    peer: HudiPeer

    @property
    def small(self) -> SmallTable:
        return SmallTable(StoreLocation.of(self.path))

    @property
    def table(self) -> HoodieTable:
        """The table as it is now."""
        return open_table(self.small.location)
