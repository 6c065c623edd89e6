"""LakeStores of Google and Azure, and what does not go together in one: for the parser and the
Kubernetes API server alike."""

from __future__ import annotations

from tideline_operator.api_objects import Manifest

CLOUD_STORES: tuple[Manifest, ...] = (
    {"endpoint": "https://gate.test/storage/v1/s3", "sse": "aws:kms", "sseBucketKey": False},
    {"gcs": {}},
    {"gcs": {"endpoint": "http://gcs.lake.svc:4443"}, "tls": {"caSecretName": "authorities"}},
    {"azure": {}},
    {"azure": {"account": "acct"}, "credentials": {"secretName": "keys"}},
    {"azure": {"endpoint": "http://azurite.lake.svc:10000/acct/"}, "engine": {"warm": {}}},
)
"""Specs that are accepted."""
_SHOWN = {"secretName": "shown"}
MIXED_STORES: tuple[tuple[Manifest, str], ...] = (
    ({"gcs": {}, "azure": {}}, "azure"),
    ({"azure": {}, "credentials": {"secretName": "keys"}}, "azure.account"),
    ({"gcs": {}, "endpoint": "http://minio:9000"}, "endpoint"),
    ({"azure": {}, "endpoint": "http://minio:9000"}, "endpoint"),
    ({"gcs": {}, "region": "eu-1"}, "region"),
    ({"azure": {}, "createBuckets": True}, "createBuckets"),
    ({"azure": {}, "pathStyle": False}, "pathStyle"),
    ({"gcs": {}, "webIdentity": {"roleArn": "arn:aws:iam::1:role/lake"}}, "webIdentity"),
    ({"gcs": {}, "eventLogs": "s3://lake/logs"}, "eventLogs"),
    ({"gcs": {}, "sse": "AES256"}, "sse"),
    ({"azure": {}, "requesterPays": True}, "requesterPays"),
    ({"gcs": {}, "clientCertificate": _SHOWN}, "clientCertificate"),
    ({"endpoint": "http://minio:9000", "clientCertificate": _SHOWN}, "clientCertificate"),
    ({"eventLogs": "s3://lake/logs", "clientCertificate": _SHOWN}, "eventLogs"),
    ({"azure": {}, "checksumAlgorithm": "SHA256"}, "checksumAlgorithm"),
    ({"sseKmsKeyId": "key"}, "sseKmsKeyId"),
    ({"endpoint": "http://minio:9000/lake/.."}, "endpoint"),
    ({"sse": "AES256", "sseKmsKeyId": "key"}, "sseKmsKeyId"),
    ({"sse": "AES256", "sseBucketKey": False}, "sseBucketKey"),
    ({"sse": "aws:kms", "sseKmsKeyId": "${env.HOME}"}, "sseKmsKeyId"),
    ({"endpoint": "https://${env.HOME}.example"}, "endpoint"),
    ({"gcs": {"endpoint": "https://${env.HOME}.example"}}, "gcs.endpoint"),
    ({"endpoint": "https://key:of-the-user@minio.example"}, "endpoint"),
    ({"gcs": {"endpoint": "https://of-the-user@gcs.example"}}, "gcs.endpoint"),
    ({"azure": {"endpoint": "https://of-the-user@azure.example/acct"}}, "azure.endpoint"),
    ({"azure": {"endpoint": "https://azure.example/acct?sv=1&sig=of-the-user"}}, "azure.endpoint"),
    ({"azure": {"endpoint": "AccountName=own;AccountKey=of-the-user"}}, "azure.endpoint"),
)
"""Specs that are refused, with the field that is named."""
