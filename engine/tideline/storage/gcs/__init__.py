"""Google Cloud Storage, by its XML API.

- options and spelling of locations: `kind`; the store and its conditions: `store`
- whose credentials sign requests: `identity`, `machine_token`
"""
