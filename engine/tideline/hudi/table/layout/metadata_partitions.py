"""Names of the partitions of a metadata table, and which of them are kept up to date."""

from __future__ import annotations

FILES = "files"
"""The partition that lists files."""
COLUMN_STATS = "column_stats"
"""The one with bounds and counts of the columns of files."""
PARTITION_STATS = "partition_stats"
"""The one with the same of whole partitions."""
RECORD_INDEX = "record_index"
"""The one that says in which file group each record key is."""
BLOOM_FILTERS = "bloom_filters"
"""The one with the bloom filters of the keys of base files."""
SECONDARY_INDEX = "secondary_index_"
"""How the names of those begin that say which keys have a value."""

KEPT_IN_METADATA_TABLE = (BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX)
"""The partitions that are kept up to date here, but secondary indexes."""
KEPT_IN_VERSION_6 = frozenset({BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX})
"""Of these, what is kept in version 6."""
