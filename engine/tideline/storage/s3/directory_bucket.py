"""Directory buckets of S3 (S3 Express One Zone): what differs in requests to them.

1. A zone serves them, at an endpoint of its own that has the bucket in its name. There are none
   elsewhere.
2. Requests are signed with a session of the bucket, which the client opens and renews
   (CreateSession), but for copies.
3. Lists are in no order and start at the beginning; their prefixes end in a slash.
4. How objects are encrypted is a matter of the bucket, and nobody else pays for requests.
"""

from __future__ import annotations

import re

from tideline.errors import ConfigError
from tideline.storage.s3.request_headers import RequestHeaders

_SUFFIX = "--x-s3"
_NAME = re.compile(rf"[a-z0-9][a-z0-9-]*--([a-z0-9]+-[a-z0-9-]*[a-z0-9]){_SUFFIX}")


def is_directory_bucket(bucket: str) -> bool:
    """Whether the name is one of a directory bucket."""
    return bucket.endswith(_SUFFIX)


def zonal_url(bucket: str, region: str, *, endpoint: str | None, headers: RequestHeaders) -> str:
    """The URL that requests for a directory bucket go to. Raises ConfigError for a name without a
    zone, another endpoint than Amazon's, and headers that such buckets do not take."""
    service = zonal_service(bucket, region)
    if endpoint is not None:
        message = "directory buckets are served by Amazon alone: leave out the endpoint"
        raise ConfigError(message, value=bucket)
    if headers.sse is not None or headers.sse_bucket_key is not None or headers.requester_pays:
        raise ConfigError(
            "a directory bucket decides itself how it encrypts, and its owner pays: leave out sse, "
            "sse_bucket_key and requester_pays",
            value=bucket,
        )
    return service.replace("://", f"://{bucket}.", 1)


def zonal_service(bucket: str, region: str) -> str:
    """The URL of the zone that serves a directory bucket, without the bucket. Raises ConfigError
    for a name without a zone."""
    found = _NAME.fullmatch(bucket)
    if found is None:
        message = "a directory bucket is named base-name--zone-id--x-s3"
        raise ConfigError(message, value=bucket)
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://s3express-{found[1]}.{region}.{domain}"
