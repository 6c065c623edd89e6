"""How large images are, as nodes pull them."""

from __future__ import annotations

import pytest

from e2e.node.cluster import image_archive

OPERATOR_BYTES_MAX = 200_000_000


def test_the_operators_image_is_small() -> None:
    archive = image_archive("localhost/tideline-operator:dev")
    if not archive.exists():
        pytest.skip("images built by Docker are not kept as archives")
    # Its layers are not compressed.
    assert archive.stat().st_size < OPERATOR_BYTES_MAX
