"""Whether this machine has nothing else to do, which figures need to count."""

from __future__ import annotations

import os
import time

LOAD_MAX = 0.5
"""Of the last minute, when a bench begins."""
_LOOK_EVERY_S = 5.0


def wait_for_quiet(seconds_max: float) -> float:
    """Wait until the load is low enough, so long at most; the load then."""
    deadline = time.monotonic() + seconds_max
    load = os.getloadavg()[0]
    if load > LOAD_MAX:
        print(f"the machine is busy (load {load:.2f}); waiting {seconds_max / 60:g} min at most")
    while load > LOAD_MAX and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        load = os.getloadavg()[0]
    return load
