"""An Iceberg table in memory with real parquet files and position deletes, read by the book."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent, ManifestEntry
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.object_store import ObjectStore
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import PATH_FIELD_ID
from tideline.testing.iceberg_row_delta import RowDelta

POSITION_FIELD_ID = 2147483545
ROW_FIELD_ID = 2147483544


@dataclass(slots=True)
class DeleteTable:
    """Files of `parity`=even or odd hold the numbers they are given."""

    model: IcebergModel = field(default_factory=IcebergModel.create)

    @classmethod
    def create(cls, **properties: str) -> DeleteTable:
        """An empty version 2 table; `_` in property names stands for `.`, `__` for `-`."""
        named = {n.replace("__", "-").replace("_", "."): text for n, text in properties.items()}
        return cls(IcebergModel.create(properties=named))

    def copy(self) -> DeleteTable:
        """The same table once more, with objects of its own."""
        return DeleteTable(self.model.copy())

    def path(self, name: str) -> str:
        """The location of a data file."""
        return f"{self.model.metadata().location}/data/{name}.parquet"

    def append(
        self,
        name: str,
        numbers: Sequence[int],
        *,
        parity: str = "even",
        file_format: str = "PARQUET",
    ) -> None:
        """A data file with these rows, which metadata may call one of another format."""
        file = self._write(self.path(name), {1: pa.array(numbers)}, parity)
        self._commit("append", replace(file, file_format=file_format))

    def delete(
        self,
        positions: Mapping[str, Sequence[int]],
        *,
        parity: str = "even",
        names_file: bool = False,
        keeps_rows: bool = False,
        file_format: str = "PARQUET",
        store: ObjectStore | None = None,
    ) -> str:
        """A position delete file, by data file; its location. With `names_file` the manifest says
        which data file it is about, with `keeps_rows` the file repeats the deleted numbers."""
        paths = {name: self.path(name) for name in positions}
        pairs = [(paths[name], at) for name, listed in positions.items() for at in listed]
        columns = {
            PATH_FIELD_ID: pa.array([path for path, _ in pairs], pa.string()),
            POSITION_FIELD_ID: pa.array([at for _, at in pairs], pa.int64()),
        }
        if keeps_rows:
            numbers = {
                manifest_entry.data_file.file_path: self._read(manifest_entry.data_file)[0]
                for manifest_entry in self.data()
            }
            number = pa.field("number", pa.int64(), metadata={"PARQUET:field_id": "1"})
            rows = [{"number": numbers[path][at].as_py()} for path, at in pairs]
            columns[ROW_FIELD_ID] = pa.array(rows, pa.struct([number]))
        path = f"{self.model.metadata().location}/data/{uuid.uuid4()}-deletes.parquet"
        file = self._write(path, columns, parity)
        only = self.path(next(iter(positions))) if names_file else None
        self._commit(
            "delete",
            DataFile(
                FileContent.POSITION_DELETES,
                *(file.file_path, file_format, file.spec_id, file.partition),
                *(file.record_count, file.file_size_bytes),
                referenced_data_file=only,
            ),
            store,
        )
        return path

    def remove(self, name: str) -> None:
        """Take a data file out of the table."""
        operations = self.model.operations()
        gone = [
            manifest_entry.data_file
            for manifest_entry in self.data()
            if manifest_entry.data_file.file_path == self.path(name)
        ]
        outcome = self.model._commit(operations, RowDelta("delete", (), gone))
        assert isinstance(outcome, Committed)

    def data(self) -> list[ManifestEntry]:
        """The live data files."""
        return self.model.files().data()

    def deletes(self) -> list[ManifestEntry]:
        """The live delete files."""
        return self.model.files().deletes()

    def pairs(self, delete: ManifestEntry) -> list[tuple[str, int]]:
        """What a delete file holds: names of data files and positions, as they lie in it."""
        rows = self._read(delete.data_file)
        encoded = rows[0].combine_chunks().dictionary_encode()
        short = [path.rpartition("/")[2].removesuffix(".parquet") for path in
                 encoded.dictionary.to_pylist()]  # fmt: skip
        names = [short[code] for code in encoded.indices.to_pylist()]
        return list(zip(names, rows[1].to_pylist(), strict=True))

    def rows(self) -> list[int]:
        """What a reader sees, sorted (spec, "Scan Planning")."""
        deletes = [(delete_file, set(self.pairs(delete_file))) for delete_file in self.deletes()]
        visible: list[int] = []
        for entry in self.data():
            name = entry.data_file.file_path.rpartition("/")[2].removesuffix(".parquet")
            gone = {
                at
                for delete, pairs in deletes
                if delete.data_file.partition == entry.data_file.partition
                and (delete.sequence_number or 0) >= (entry.sequence_number or 0)
                for path, at in pairs
                if path == name
            }
            numbers: Iterable[int] = self._read(entry.data_file)[0].to_pylist()
            visible += (number for at, number in enumerate(numbers) if at not in gone)
        return sorted(visible)

    def _commit(self, operation: str, file: DataFile, store: ObjectStore | None = None) -> None:
        operations = self.model.operations(store)
        outcome = self.model._commit(operations, RowDelta(operation, [file]))
        assert isinstance(outcome, Committed)

    def _write(self, path: str, columns: Mapping[int, pa.Array], parity: str) -> DataFile:
        fields = [
            pa.field(f"c{number}", array.type, False, {"PARQUET:field_id": str(number)})
            for number, array in columns.items()
        ]
        table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
        body = io.BytesIO()
        pq.write_table(table, body)
        self.model.operations().io.write(path, body.getvalue())
        size_bytes = len(body.getvalue())
        return DataFile(FileContent.DATA, path, "PARQUET", 0, (parity,), table.num_rows, size_bytes)

    def _read(self, file: DataFile) -> pa.Table:
        return pq.read_table(io.BytesIO(self.model.operations().io.read(file.file_path)))
