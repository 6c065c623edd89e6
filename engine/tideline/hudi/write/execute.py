"""The data part of a write inside its transaction, the same for every engine: which way it goes.

- `write_by_location`: an index that reads base files finds where the keys are stored.
- `write_by_hash`: the hash of the key says where.
- `replace_file_groups`: all rows to new file groups, which take the place of old ones.
- A bulk insert looks nothing up.
"""

from __future__ import annotations

from tideline.errors import ConflictError
from tideline.hudi.write.concurrent_schema_change import is_current
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.replace_file_groups import overwrite
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.write_by_hash import write_by_hash
from tideline.hudi.write.write_by_location import write_by_location
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WrittenFiles
from tideline.hudi.write.write_step import handle_context


def execute_write(transaction: WriteTransaction, engine: WriteEngine) -> WrittenFiles:
    """Write the engine's batch as the transaction's operation.

    Raises ConflictError when the table's schema is not the one the batch was prepared for.
    """
    operation = transaction.operation
    _require_current_schema(transaction, engine)
    if operation.replaces_file_groups:
        return overwrite(transaction, engine)
    if transaction.config.index.type.places_by_hash:
        return write_by_hash(transaction, engine)
    if operation is WriteOperation.BULK_INSERT:
        transaction.to_inflight()
        context = handle_context(transaction, engine)
        return WrittenFiles(engine.bulk_insert(context, transaction.config.bulk_insert_sort_mode))
    return write_by_location(transaction, engine)


def _require_current_schema(transaction: WriteTransaction, engine: WriteEngine) -> None:
    table = transaction.table
    if not is_current(table.schemas.newest(transaction.timeline), engine.schema):
        raise ConflictError(
            "the table's schema changed since the batch was prepared; write again",
            table=table.location.uri,
            instant=transaction.instant,
        )
