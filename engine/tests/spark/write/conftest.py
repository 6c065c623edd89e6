"""Most claims about writes are tested on both engines."""

from tideline.testing.written_table import either_engine

__all__ = ["either_engine"]
