"""Compaction: merging the log files of file groups into new base files.

- compaction, log compaction, clustering: this package, `hudi.services.log_compaction`,
  `hudi.services.clustering`
"""
