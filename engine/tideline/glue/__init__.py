"""AWS's Glue Data Catalog: its requests, without AWS's own client, which images have no room for.

- `address`: which catalog, in which region, at which server.
- `keys`: whose credentials sign.
- `signature`: Signature Version 4.
- `client`: one action, its answer, and how often it is tried.
"""
