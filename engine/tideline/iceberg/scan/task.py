"""What a scan reads of one data file."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.iceberg.manifest.manifest_entry import DataFile


@dataclass(frozen=True, slots=True)
class FileScanTask:
    """A data file to read and what to leave out of it. Its column metrics are not kept."""

    data_file: DataFile
    sequence_number: int
    position_deletes: tuple[DataFile, ...] = ()
    equality_deletes: tuple[DataFile, ...] = ()
    deletion_vector: DataFile | None = None

    @property
    def spec_id(self) -> int:
        """The partition spec of the data file."""
        return self.data_file.spec_id

    @property
    def deletes(self) -> tuple[DataFile, ...]:
        """All delete files that apply."""
        vector = () if self.deletion_vector is None else (self.deletion_vector,)
        return (*self.position_deletes, *self.equality_deletes, *vector)
