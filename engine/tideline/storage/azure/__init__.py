"""Azure Blob Storage, and Data Lake Storage by the same requests.

- options and spelling of locations: `kind`; the store and its conditions: `store`
- whose credentials sign requests: `identity`
"""
