"""Changes of an Iceberg table's definition: columns, partitions, order, properties, branches, tags.

A change (`step.py`) edits a draft of the table (`draft.py`), which says what a catalog is to update
and what it takes for granted. `execute.py` commits a list of changes, all or none.

    columns.py       columns: add, drop, rename, widen, optional, doc, default, position, identifier
    column_tree.py   fields at any depth, by id
    promotion.py     which types may become which
    type_text.py     types as people write them
    default_value.py defaults as metadata has them
    column_names.py  properties that name columns: the name mapping, metrics, bloom filters
    partitioning.py  partition specs and sort orders
    properties.py    properties and the format's version
    refs.py          branches and tags, and what the main branch leads to
"""
