"""The author of a value, and what follows: which authors may name an address, code or a file.

- whose word counts for what: this package, `docs/security.md`
- locations that a table names: `storage.named_places`
- addresses that the operator connects to, the proxy that checks them: `addresses`,
  `storage.egress.proxy`
"""
