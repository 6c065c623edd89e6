"""Test support that ships with the package: fakes, faults, contracts and servers."""
