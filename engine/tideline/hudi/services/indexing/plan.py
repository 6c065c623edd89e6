"""Which of the wanted indexes are missing: a pure function of what the table lists.

Nothing that the table has beside them is dropped.
"""

from __future__ import annotations

from collections.abc import Container

from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.indexing.config import INDEXES, IndexingConfig
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.services.explanation import Due, NotDue


def find_due(facts: DueFacts, config: IndexingConfig) -> Due | NotDue:
    """Whether an index is missing. A table without a commit has none: its first one settles the
    columns."""
    if not config.names:
        return NotDue(f"no index is asked for ({INDEXES})")
    missing = missing_indexes(config, facts.metadata_partitions)
    if not missing:
        return NotDue(f"the table has {', '.join(config.names)}")
    if not len(facts.timeline.of(*COMMIT_ACTIONS).completed()):
        return NotDue("nothing has been written yet")
    return Due(f"the table has no {' and no '.join(missing)}")


def missing_indexes(config: IndexingConfig, there: Container[str]) -> tuple[str, ...]:
    """Those that are wanted and not there, as they are listed."""
    return tuple(name for name in dict.fromkeys(config.names) if name not in there)
