"""A module that nothing imports: it is loaded where a name in somebody's data was taken for code.

Tests look for it in `sys.modules`.
"""

from __future__ import annotations


class Canary:
    """What such a name stands for; it takes any arguments."""

    def __init__(self, *given: object, **named: object) -> None:
        del given, named
