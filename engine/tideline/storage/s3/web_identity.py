"""Exchanging a web identity token for temporary credentials, at AWS's STS or a store's own.

Action AssumeRoleWithWebIdentity of the STS API. obstore's own exchange refuses plain HTTP, which
MinIO within a cluster may have, and other clients put the token into the URL, where proxies log it:
here it is in the body.
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from tideline.secret_values import note_secrets
from tideline.storage.egress.route import Egress
from tideline.storage.remote.identity import IdentityError

SESSION_NAME = "tideline"
_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 256 * 1024
_FIELDS = {
    "access_key_id": "AccessKeyId",
    "secret_access_key": "SecretAccessKey",
    "token": "SessionToken",
    "expires_at": "Expiration",
}


_CODE = re.compile(r"\w{1,64}")


class WebIdentity:
    """Gives current credentials when called, as obstore wants them."""

    def __init__(
        self,
        sts_url: str,
        role_arn: str,
        read_token: Callable[[], str],
        *,
        authorities: bytes | None = None,
        egress: Egress | None = None,
    ) -> None:
        """`authorities` are certificates (PEM) to trust besides the machine's; `egress` gives the
        way to the STS."""
        self._sts_url = sts_url
        self._role_arn = role_arn
        self._read_token = read_token
        self._authorities = authorities
        self._egress = egress

    @property
    def sts_url(self) -> str:
        """The STS that is asked."""
        return self._sts_url

    @property
    def role_arn(self) -> str:
        """The role that the token is exchanged for."""
        return self._role_arn

    def token(self) -> str:
        """The token as it is now. Raises IdentityError and OSError."""
        return self._read_token()

    def __call__(self) -> dict[str, Any]:
        """Raises IdentityError when the STS does not answer or refuses."""
        try:
            token = self._read_token()
        except OSError as error:
            raise IdentityError(f"the token cannot be read: {error.strerror}") from None
        note_secrets([token])
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self._role_arn,
            "RoleSessionName": SESSION_NAME,
            "WebIdentityToken": token,
        }
        body = self._post(urllib.parse.urlencode(form).encode())
        found = _credentials(body, self._sts_url)
        note_secrets([found["secret_access_key"], found["token"]])
        return found

    def _post(self, form: bytes) -> bytes:
        context = ssl.create_default_context()
        if self._authorities is not None:
            context.load_verify_locations(cadata=self._authorities.decode())
        route = None if self._egress is None else self._egress.to(self._sts_url)
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.HTTPSHandler(context=context), _NoRedirect()
        ]  # fmt: skip
        if route is not None:
            url = route.proxy_url
            handlers.append(urllib.request.ProxyHandler({"http": url, "https": url}))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(self._sts_url, data=form, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                code = _text(error.read(_ANSWER_BYTES_MAX), "Code")
            problem = None if route is None else route.problem()
            if problem is not None:
                raise self._unreached(problem) from None
            code = code if _CODE.fullmatch(code) else ""
            answer_ = f"{error.code} {code}" if code else str(error.code)
            raise IdentityError(
                f"the STS at {self._sts_url} refuses the token ({answer_}): check the role, the "
                "audience and the issuer it trusts"
            ) from None
        except OSError as error:
            problem = None if route is None else route.problem()
            raise self._unreached(problem or getattr(error, "reason", error)) from None

    def _unreached(self, why: object) -> IdentityError:
        return IdentityError(f"the STS at {self._sts_url} cannot be reached: {why}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes to the STS that configuration names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _credentials(body: bytes, sts_url: str) -> dict[str, Any]:
    found: dict[str, Any] = {name: _text(body, tag) for name, tag in _FIELDS.items()}
    if not all(found.values()):
        raise IdentityError(f"the STS at {sts_url} answers without credentials")
    found["expires_at"] = datetime.fromisoformat(found["expires_at"]).astimezone(UTC)
    return found


def _text(body: bytes, tag: str) -> str:
    """The text of the first element of that name, in whatever namespace."""
    try:
        elements = ElementTree.fromstring(body).iter()
        return next((node.text or "" for node in elements if node.tag.endswith(f"}}{tag}")), "")
    except ElementTree.ParseError:
        return ""
