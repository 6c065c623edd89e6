"""Test support that ships with the package: fakes, faults, contracts and servers.

- stores that die, fake clocks, peers: this package
"""
