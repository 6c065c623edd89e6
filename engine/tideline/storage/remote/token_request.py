"""Asking a server for temporary credentials: one form, one answer, no redirect.

The form has a secret, so it is in the body, never in a URL, which proxies log; and it goes to the
server that configuration names.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tideline.storage.egress.route import Egress
from tideline.storage.remote.identity import IdentityError

_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 256 * 1024
_SCHEMES = ("http://", "https://")
"""Python opens files and other servers as well, past any proxy."""


def answer_to_form(
    url: str,
    form: Mapping[str, str],
    *,
    name: str,
    authorities: bytes | None,
    egress: Egress | None,
) -> tuple[int, bytes]:
    """The status and the body of the answer. `name` is that of the server in messages;
    `authorities` are certificates (PEM) to trust besides the machine's; `egress` gives the way.

    Raises IdentityError when it cannot be reached.
    """
    if not url.lower().startswith(_SCHEMES):
        raise IdentityError(f"{name} is not asked: its URL is none of HTTP")
    context = ssl.create_default_context()
    if authorities is not None:
        context.load_verify_locations(cadata=authorities.decode())
    route = None if egress is None else egress.to(url)
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.HTTPSHandler(context=context), _NoRedirect()
    ]  # fmt: skip
    if route is not None:
        proxy = route.proxy_url
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    opener = urllib.request.build_opener(*handlers)
    body = urllib.parse.urlencode(form).encode()
    try:
        with opener.open(url, data=body, timeout=_TIMEOUT_S) as answer:
            return HTTPStatus.OK, bytes(answer.read(_ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            refusal = bytes(error.read(_ANSWER_BYTES_MAX))
        problem = None if route is None else route.problem()
        if problem is not None:
            raise IdentityError(f"{name} cannot be reached: {problem}") from None
        return error.code, refusal
    except OSError as error:
        problem = None if route is None else route.problem()
        why: object = problem or getattr(error, "reason", error)
        raise IdentityError(f"{name} cannot be reached: {why}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
