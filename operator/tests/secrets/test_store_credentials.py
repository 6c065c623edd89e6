"""Credentials of a LakeStore's Secret: which keys each kind of store takes, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest

from tideline.secret_values import masked
from tideline.storage.azure.keys import AzureKeys
from tideline.storage.gcs.identity import GoogleKey
from tideline.storage.s3.client import S3Credentials
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.store_secrets import SecretProblemError, store_credentials

KEY = base64.b64encode(b"the key of an account").decode()
GOOGLE = json.dumps({"type": "service_account", "private_key": "the-private-key"})
USER = json.dumps({"type": "authorized_user", "refresh_token": "the-refresh-token"})
CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=own;AccountKey={KEY}"
CLIENT = {"AZURE_TENANT_ID": "own", "AZURE_CLIENT_ID": "id", "AZURE_CLIENT_SECRET": "of-a-client"}


def secret(content: Mapping[str, str]) -> Manifest:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in content.items()}
    return {"metadata": {"name": "keys"}, "data": data}


def test_each_kind_of_store_takes_its_keys() -> None:
    client = AzureKeys(tenant_id="own", client_id="id", client_secret="of-a-client")
    rows: list[tuple[str, Mapping[str, str], object]] = [
        ("s3", {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key\n"},
         S3Credentials("id", "key", None)),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": f"{GOOGLE}\n"}, GoogleKey(GOOGLE)),
        ("abfss", {"AZURE_STORAGE_ACCOUNT_KEY": f"{KEY}\n"}, AzureKeys(account_key=KEY)),
        ("abfss", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=own"},
         AzureKeys(signature="sv=1&sig=own")),
        ("abfss", CLIENT, client),
        # The first that is there, as in the pods.
        ("abfss", {**CLIENT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}, AzureKeys(account_key=KEY)),
        ("abfss", {**CLIENT, "AZURE_STORAGE_SAS_TOKEN": "sig=own"}, AzureKeys(signature="sig=own")),
    ]  # fmt: skip
    for scheme, content, expected in rows:
        assert store_credentials(secret(content), scheme) == expected
    shown = f"the-private-key {KEY} of-a-client sv=1&sig=own"
    assert masked(shown) == "*** *** *** ***"


@pytest.mark.parametrize(
    ("scheme", "content", "words"),
    [
        ("s3", {"AWS_ACCESS_KEY_ID": "a"}, "no usable value under the key AWS_SECRET_ACCESS_KEY"),
        ("gs", {}, "no usable value under the key GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"AZURE_STORAGE_ACCOUNT_KEY": KEY}, "under the key GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": "no-json-of-mine"}, "is not a key of Google in JSON"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": USER}, "of a type that is not supported"),
        ("abfss", {}, "neither AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, nor AZURE_TEN"),
        ("abfss", {"AWS_ACCESS_KEY_ID": "a"}, "it has neither AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfss", {"AZURE_STORAGE_ACCOUNT_KEY": "not-base-64!"}, "is not the key of an account"),
        ("abfss", {"AZURE_STORAGE_ACCOUNT_KEY": "AA"}, "is not the key of an account"),
        (
            "abfss",
            {"AZURE_STORAGE_ACCOUNT_KEY": CONNECTION},
            "give it alone, no connection string",
        ),
        ("abfss", {"AZURE_STORAGE_SAS_TOKEN": CONNECTION}, "is not a shared access signature"),
        ("abfss", {"AZURE_STORAGE_SAS_TOKEN": "the-signature"}, "give what is behind the . of its"),
        (
            "s3",
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a-key\nof-two-lines"},
            "AWS_SECRET_ACCESS_KEY has a line break or another character",
        ),
        (
            "s3",
            {"AWS_ACCESS_KEY_ID": "a-line\x00b", "AWS_SECRET_ACCESS_KEY": "a-key"},
            "AWS_ACCESS_KEY_ID has a line break or another character",
        ),
        ("abfss", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=of-a\nline"}, "has a line break"),
        ("abfss", {**CLIENT, "AZURE_TENANT_ID": ""}, "under the key AZURE_TENANT_ID"),
        ("abfss", {**CLIENT, "AZURE_CLIENT_SECRET": " \n"}, "under the key AZURE_CLIENT_SECRET"),
    ],
)
def test_a_secret_without_them_is_refused_by_key_and_shows_nothing(
    scheme: str, content: Mapping[str, str], words: str
) -> None:
    with pytest.raises(SecretProblemError, match=rf"credentials\.secretName.*'keys'.*{words}") as c:
        store_credentials(secret(content), scheme)
    assert c.value.reason == "SecretIncomplete"
    for text in (*content.values(), "the-refresh-token"):
        assert len(text) < 3 or text not in str(c.value)
