"""Topics of Kafka as a source of rows.

`declared`, `records`, `position` and `offsets` are values; `broker` talks to the brokers,
`json_rows` reads values, and `reader` is where both meet the commit.
"""
