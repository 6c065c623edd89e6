"""How long tests wait for what always comes.

The time matters only on failure. Machines that do a lot besides take twenty times as long for
something as others: nothing is gained by a wait that ends sooner.
"""

from __future__ import annotations

PATIENCE_S = 180.0
