"""Asking a server for temporary credentials: one form, one answer, no redirect.

The form has a secret, so it is in the body, never in a URL, which proxies log; and it goes to the
server that configuration names.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.route import Egress
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.post import NoAnswerError, answer_to_post

_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 256 * 1024


def answer_to_form(
    url: str,
    form: Mapping[str, str],
    *,
    name: str,
    authorities: bytes | None,
    egress: Egress | None,
    client: ClientCertificate | None = None,
) -> tuple[int, bytes]:
    """The status and the body of the answer. `name` is that of the server in messages;
    `authorities` are certificates (PEM) to trust besides the machine's; `egress` gives the way,
    `client` is shown to the server.

    Raises IdentityError when it cannot be reached.
    """
    try:
        return answer_to_post(
            url,
            urllib.parse.urlencode(form).encode(),
            {},
            timeout_s=_TIMEOUT_S,
            bytes_max=_ANSWER_BYTES_MAX,
            authorities=authorities,
            client=client,
            route=None if egress is None else egress.to(url),
        )
    except NoAnswerError as error:
        raise IdentityError(f"{name} cannot be reached: {error}") from None
