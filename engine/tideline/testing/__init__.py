"""Test support, which the wheel leaves out: fakes, faults, contracts and servers.

- what to use for what: `README.md`
"""
