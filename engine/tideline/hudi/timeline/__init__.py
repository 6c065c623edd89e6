"""The timeline of a Hudi table: instants, their files and the metadata they carry.

- instants and instant times: `instant`, `instant_time`
- time zones of instants, and how they are known: `zone`, `known_zone`
- the timeline and its transitions: `active`
- file names of a timeline, bodies of commits: `layout_v1`, `layout_v2`
- commit metadata, ranges of columns that travel with it: `commit_metadata`, `column_range`
- archived instants, their extra metadata: `archived`, `lsm_history`, `carried`
"""
