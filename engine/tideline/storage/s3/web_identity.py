"""Exchanging a web identity token for temporary credentials, at AWS's STS or a store's own.

Action AssumeRoleWithWebIdentity of the STS API. obstore's own exchange refuses plain HTTP, which
MinIO within a cluster may have, and other clients put the token into the URL, where proxies log it:
here it is in the body.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from xml.etree import ElementTree

from tideline.secret_values import note_secrets
from tideline.storage.egress.client_certificate import ClientFor
from tideline.storage.egress.route import Egress
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.token_request import answer_to_form

SESSION_NAME = "tideline"
_FIELDS = {
    "access_key_id": "AccessKeyId",
    "secret_access_key": "SecretAccessKey",
    "token": "SessionToken",
    "expires_at": "Expiration",
}
_MARGIN_S = 10.0
_PAUSE_S = 15.0
"""Between requests to an STS that does not answer, while what it gave before lasts."""
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
        client: ClientFor | None = None,
    ) -> None:
        """`authorities` are certificates (PEM) to trust besides the machine's; `egress` gives the
        way to the STS, `client` the certificate that is shown there."""
        self._sts_url = sts_url
        self._role_arn = role_arn
        self._read_token = read_token
        self._authorities = authorities
        self._egress = egress
        self._client = client
        self._last: dict[str, Any] | None = None
        self._again_s = 0.0

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
        """Raises IdentityError when the STS does not answer or refuses, and what it gave before has
        ended: clients renew credentials minutes before their end."""
        last = self._last
        if last is not None and time.monotonic() < self._again_s and _lasts(last):
            return last
        try:
            self._last = self._exchanged()
        except IdentityError:
            if last is None or not _lasts(last):
                raise
            self._again_s = time.monotonic() + _PAUSE_S
            return last
        return self._last

    def _exchanged(self) -> dict[str, Any]:
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
        name = f"the STS at {self._sts_url}"
        status, body = answer_to_form(
            self._sts_url,
            form,
            name=name,
            authorities=self._authorities,
            egress=self._egress,
            client=None if self._client is None else self._client(self._sts_url),
        )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise IdentityError(f"{name} cannot answer now ({status})")
        if status != HTTPStatus.OK:
            code = _text(body, "Code")
            shown = f"{status} {code}" if _CODE.fullmatch(code) else str(status)
            raise IdentityError(
                f"{name} refuses the token ({shown}): check the role, the audience and the issuer "
                "it trusts"
            )
        found = _credentials(body, self._sts_url)
        note_secrets([found["secret_access_key"], found["token"]])
        return found


def _credentials(body: bytes, sts_url: str) -> dict[str, Any]:
    found: dict[str, Any] = {name: _text(body, tag) for name, tag in _FIELDS.items()}
    if not all(found.values()):
        raise IdentityError(f"the STS at {sts_url} answers without credentials")
    found["expires_at"] = datetime.fromisoformat(found["expires_at"]).astimezone(UTC)
    return found


def _lasts(found: dict[str, Any]) -> bool:
    left_s: float = (found["expires_at"] - datetime.now(UTC)).total_seconds()
    return left_s > _MARGIN_S


def _text(body: bytes, tag: str) -> str:
    """The text of the first element of that name, in whatever namespace."""
    try:
        elements = ElementTree.fromstring(body).iter()
        return next((node.text or "" for node in elements if node.tag.endswith(f"}}{tag}")), "")
    except ElementTree.ParseError:
        return ""
