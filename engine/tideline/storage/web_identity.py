"""Exchanging a web identity token for temporary credentials, at AWS's STS or a store's own.

Action AssumeRoleWithWebIdentity of the STS API. obstore's own exchange refuses plain HTTP, which
MinIO within a cluster may have, and other clients put the token into the URL, where proxies log it:
here it is in the body.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

SESSION_NAME = "tideline"
_TIMEOUT_S = 10.0
_FIELDS = {
    "access_key_id": "AccessKeyId",
    "secret_access_key": "SecretAccessKey",
    "token": "SessionToken",
    "expires_at": "Expiration",
}


class IdentityError(Exception):
    """No credentials were given; the words hold no secret."""


class WebIdentity:
    """Gives current credentials when called, as obstore wants them."""

    def __init__(
        self,
        sts_url: str,
        role_arn: str,
        read_token: Callable[[], str],
        *,
        authorities: bytes | None = None,
    ) -> None:
        """`authorities` are certificates (PEM) to trust besides the machine's."""
        self._sts_url = sts_url
        self._role_arn = role_arn
        self._read_token = read_token
        self._authorities = authorities

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
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self._role_arn,
            "RoleSessionName": SESSION_NAME,
            "WebIdentityToken": token,
        }
        body = self._post(urllib.parse.urlencode(form).encode())
        return _credentials(body, self._sts_url)

    def _post(self, form: bytes) -> bytes:
        context = ssl.create_default_context()
        if self._authorities is not None:
            context.load_verify_locations(cadata=self._authorities.decode())
        try:
            with urllib.request.urlopen(
                self._sts_url, data=form, timeout=_TIMEOUT_S, context=context
            ) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                code = _text(error.read(), "Code")
            answer_ = f"{error.code} {code}" if code else str(error.code)
            raise IdentityError(
                f"the STS at {self._sts_url} refuses the token ({answer_}): check the role, the "
                "audience and the issuer it trusts"
            ) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            raise IdentityError(f"the STS at {self._sts_url} cannot be reached: {why}") from None


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
        return next((one.text or "" for one in elements if one.tag.endswith(f"}}{tag}")), "")
    except ElementTree.ParseError:
        return ""
