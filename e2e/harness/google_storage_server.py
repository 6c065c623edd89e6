"""The stand-in of Google Cloud Storage that tests of the engine have, in a pod of its image,
which leaves `tideline.testing` out: the files of that are beside this one."""

from __future__ import annotations

import sys
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

PORT = 4443
BUCKET = "lake"


def main() -> None:
    package = ModuleType("tideline.testing")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules[package.__name__] = package
    from tideline.testing.gcs_server import GcsServer

    served = partial(GcsServer.handler, GcsServer(BUCKET))
    ThreadingHTTPServer(("", PORT), served).serve_forever()


if __name__ == "__main__":
    main()
