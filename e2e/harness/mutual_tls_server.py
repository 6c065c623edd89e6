"""The front of TLS that tests of the engine have, in a pod of its image, which leaves
`tideline.testing` out: the files of that are beside this one.

It demands a certificate of each client, and passes on to TIDELINE_BEHIND, a HOST:PORT without TLS.
TIDELINE_CERTIFICATE, TIDELINE_KEY and TIDELINE_AUTHORITY are PEM: its own certificate, and the
authority of its clients.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

PORT = 9443


def main() -> None:
    package = ModuleType("tideline.testing")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules[package.__name__] = package
    from tideline.testing.tls_front import TlsFront

    folder = Path(tempfile.mkdtemp())
    pair = folder / "tls.crt", folder / "tls.key"
    for file, name in zip(pair, ("TIDELINE_CERTIFICATE", "TIDELINE_KEY"), strict=True):
        file.write_text(os.environ[name])
    host, _, port = os.environ["TIDELINE_BEHIND"].rpartition(":")
    front = TlsFront(
        (host, int(port)),
        certificate=pair,
        demands=os.environ["TIDELINE_AUTHORITY"].encode(),
        listens=("", PORT),
    )
    with front:
        threading.Event().wait()


if __name__ == "__main__":
    main()
