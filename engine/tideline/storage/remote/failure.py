"""What went wrong at a store, in our words.

obstore's messages carry whole responses (and some servers put access key ids into those), so only
the status, the error code of the store and the kind of transport failure are taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from obstore.exceptions import BaseError

from tideline.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
)
from tideline.storage.egress.route import NO_TICKET_CODE, REFUSED_CODE, UNREACHED_CODE
from tideline.storage.object_store import UnsupportedRequestError
from tideline.storage.refusals import AccessDeniedError, MissingBucketError, ObjectKeptError
from tideline.storage.remote.identity import IdentityError

_STATUS = re.compile(r"status code: (\d{3})")
_EMPTY_RANGE = "StartTooLarge"
_CODE = re.compile(r"<Code>([\w.:]{1,64})</Code>")
_DELETE = re.compile(r"DeleteObjects request failed for key (.*): .*\(code: (\w{1,64})\)")
"""Of one object among those of a request that was answered with 200."""
_STATUS_OF_DELETE = {"AccessDenied": 403, "InternalError": 500, "SlowDown": 503}
CLIENT_CERTIFICATE = (
    "the server demands a certificate of its clients (mTLS), and none is shown: name one "
    "(client_certificate, or clientCertificate of a LakeStore, on S3), or a gateway that shows one "
    "as the endpoint"
)
WRONG_CERTIFICATE = (
    "the server does not take the client's certificate: check its authority, its end and its uses"
)
_TRANSPORT = (
    ("ConnectionRefused", "connection refused"),
    ("dns error", "host name not found"),
    ("TimedOut", "timed out"),
    ("kind: Timeout", "timed out"),
    ("CertificateRequired", CLIENT_CERTIFICATE),
    # An alert of the server, which has seen none.
    ("BadCertificate", CLIENT_CERTIFICATE),
    # nginx reads the request first.
    ("No required SSL certificate was sent", CLIENT_CERTIFICATE),
    ("The SSL certificate error", WRONG_CERTIFICATE),
    ("HandshakeFailure", f"TLS refused; it may be that {CLIENT_CERTIFICATE}"),
    ("ertificate", "TLS certificate refused"),
    ("NetworkUnreachable", "network unreachable"),
    ("HostUnreachable", "host unreachable"),
    ("kind: Connect", "cannot connect"),
    ("IncompleteMessage", "connection dropped"),
    ("ConnectionReset", "connection dropped"),
    ("BrokenPipe", "connection dropped"),
)
_UNTAKEN = ("connection refused", "host name not found", CLIENT_CERTIFICATE)
"""The server has not read the request."""
_CREDENTIALS = re.compile(r"External \w+ credential provider: (\w+)(?:: (.*))?")
_TOKEN_REQUEST = "performing token request"
_NO_HEADER = "InvalidHeaderValue"
_UNSENDABLE = (
    "those given have a character that no request carries, such as a line break: check where they "
    "come from"
)
_PANIC = "PanicException"
"""What the client raises where it does not expect an error. No Exception, and of no module."""
_NOT_IMPLEMENTED = 501
_NOT_SATISFIABLE = 416
_DENIED = (401, 403)
_KEPT = (
    "access denied: check the permission to delete, and whether object lock, a retention rule or "
    "a policy of the bucket keeps the object"
)


def is_failed_request(error: BaseException) -> bool:
    """Whether the client raised it for a request that failed."""
    return isinstance(error, BaseError | OSError) or type(error).__name__ == _PANIC


@dataclass(frozen=True, slots=True)
class StoreWords:
    """How a kind of store spells failures: its error codes, and what is to be done about them.

    `missing_bucket` are codes of a missing bucket, `create` what to do about that. `wrong_request`
    are codes of requests that configuration gets wrong, `refused_keys` those of credentials,
    `ended_keys` those among them that other credentials from the same source may put right.
    """

    missing_bucket: frozenset[str]
    create: str
    bucket: str = "bucket"
    wrong_request: Mapping[str, str] = field(default_factory=dict)
    refused_keys: Mapping[str, str] = field(default_factory=dict)
    ended_keys: frozenset[str] = frozenset()
    elsewhere: str = "the bucket lives at another endpoint"


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """One failed request: HTTP status and the store's code where there was an answer, else the
    transport.

    `credentials` says why there were none to sign it with. `is_unsent` is known of requests for
    which there was no connection. `key` is the object that a delete of several failed for.
    """

    status: int | None
    code: str | None
    transport: str
    words: StoreWords
    credentials: str | None = None
    is_unsent: bool = False
    key: str | None = None

    @classmethod
    def of(cls, error: BaseException, words: StoreWords) -> RequestFailure:
        text = str(error)
        if _NO_HEADER in text:
            return cls(None, None, "not sent", words, _UNSENDABLE)
        if unsigned := _CREDENTIALS.search(text):
            kind, why = unsigned[1], unsigned[2]
            known = why if why and kind == IdentityError.__name__ else kind
            return cls(None, None, "not sent", words, known)
        if kept := _DELETE.search(text):
            code = kept[2]
            return cls(_STATUS_OF_DELETE.get(code, 400), code, "", words, key=kept[1])
        status = _STATUS.search(text)
        found_code = _CODE.search(text)
        redirected = "PermanentRedirect" if "redirect without LOCATION" in text else None
        transport = next(
            (words for sign, words in _TRANSPORT if sign in text), "the request was not answered"
        )
        if transport in (CLIENT_CERTIFICATE, WRONG_CERTIFICATE):
            return cls(None, None, transport, words, is_unsent=status is not None)
        if _TOKEN_REQUEST in text:
            answer = f"answered {status[1]}" if status else transport
            return cls(None, None, "not sent", words, f"no token was given ({answer})")
        if _EMPTY_RANGE in text:
            # Azurite answers with no bytes, which the client does not accept.
            return cls(_NOT_SATISFIABLE, None, transport, words)
        found = found_code[1] if found_code else redirected
        return cls(int(status[1]) if status else None, found, transport, words)

    @classmethod
    def unconnected(cls, problem: str, words: StoreWords) -> RequestFailure:
        """A request that was not sent, because no connection was made."""
        return cls(None, None, problem, words, is_unsent=True)

    @property
    def may_be_unconnected(self) -> bool:
        """Whether the egress proxy knows more, where there is one."""
        return self.status is None or self.code in (REFUSED_CODE, UNREACHED_CODE, NO_TICKET_CODE)

    @property
    def is_missing(self) -> bool:
        """The object does not exist; a missing bucket is something else, and so is an unknown key,
        which some servers answer with 404."""
        return self.status == 404 and not self.is_refusal

    @property
    def is_refusal(self) -> bool:
        """The bucket is missing, or the credentials do not admit."""
        return self.is_missing_bucket or self.is_denied

    @property
    def is_denied(self) -> bool:
        """Not with these credentials."""
        denies = self.code in self.words.refused_keys or self.has_ended_keys
        return denies or self.status in _DENIED

    @property
    def is_missing_bucket(self) -> bool:
        return self.code in self.words.missing_bucket

    @property
    def is_past_the_end(self) -> bool:
        return self.status == _NOT_SATISFIABLE

    @property
    def outcome_unknown(self) -> bool:
        """Whether a write may have taken place although no success was reported."""
        if self.credentials is not None or self.is_unsent:
            return False
        if self.status is None:
            return self.transport not in _UNTAKEN
        if self.is_unsupported:
            return False
        return self.status >= 500 or self.status in (408, 409, 429)

    @property
    def has_ended_keys(self) -> bool:
        return self.code in self.words.ended_keys

    @property
    def no_answer(self) -> str | None:
        """Why there was none that came from the service itself; None where there was one."""
        if self.status is not None and (self.status < 500 or self.is_unsupported):
            return None
        return self._reason()

    @property
    def is_unsupported(self) -> bool:
        """The server understood the request and has no such function."""
        return self.status == _NOT_IMPLEMENTED or self.code == "NotImplemented"

    def error(
        self, action: str, *, uri: str, endpoint: str, denied_advice: str | None = None
    ) -> TidelineError:
        """The exception to raise for this failure of `action` on `uri`. `denied_advice` is what to
        do when access is denied, where that is known better than here."""
        words = self.words
        if self.is_missing_bucket:
            message = f"Cannot {action} at {endpoint}: the {words.bucket} does not exist"
            return MissingBucketError(f"{message}; {words.create}", path=uri)
        if self.code in words.wrong_request or self.status in (301, 307):
            reason = words.wrong_request.get(self.code or "", words.elsewhere)
            return ConfigError(f"Cannot {action} at {endpoint}: {reason}", path=uri)
        if self.is_unsupported:
            return UnsupportedRequestError(
                f"cannot {action} at {endpoint}: {self._reason()}", path=uri
            )
        if self.is_missing:
            return ObjectNotFoundError(f"no such object at {endpoint}", path=uri)
        if self.key is not None and self.status in _DENIED:
            message = f"Cannot {action} at {endpoint}: {_KEPT} ({self.status} {self.code})"
            return ObjectKeptError(message, path=uri)
        kind = AccessDeniedError if self.is_denied else StorageUnavailableError
        reason = self._reason(denied_advice)
        return kind(f"Cannot {action} at {endpoint}: {reason}", path=uri)

    def _reason(self, denied_advice: str | None = None) -> str:
        if self.credentials is not None:
            return f"there are no credentials: {self.credentials}"
        if self.status is None:
            return self.transport
        answer = f"{self.status} {self.code}" if self.code else str(self.status)
        if self.is_denied:
            advice = denied_advice or "check the credentials and their permissions"
            why = self.words.refused_keys.get(self.code or "", advice)
            return f"access denied, {why} ({answer})"
        return f"the server answered {answer}"
