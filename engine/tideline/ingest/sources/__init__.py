"""Where rows come from: one protocol, and a folder for each kind of source.

- sources of rows, their kinds, checkpoints: `source`, `kinds`, `checkpoint`, `resources.sources`
- which checkpoint an ingest continues from: `resume`
- bad rows of sources with an order: `set_aside`
"""
