"""Tables of Postgres as a source: a first copy by key, then the write-ahead log.

What decides is the table's newest commit; the slot moves only after it.
"""
