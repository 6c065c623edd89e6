"""What a tenant writes into a LakeTable, or an error into its status, is text on the pages."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tideline.testing.browser import shown, with_look
from tideline_operator.report.fleet_rows import cluster_page
from tideline_operator.report.lake_table_page import lake_table_page

OWNED = "document.documentElement.dataset.owned=1"
PAYLOADS = (
    f'<img src=x onerror="{OWNED}">',
    f"</script><script>{OWNED}</script>",
    f'"><svg onload="{OWNED}">',
    f"<a href='javascript:{OWNED}' autofocus onfocus='{OWNED}'>x</a>",
)
NOW = "2026-01-02T03:04:05Z"


def lake_table() -> dict[str, Any]:
    """A LakeTable with payloads wherever the API server would let a text be, and elsewhere too."""
    text = "\n".join(PAYLOADS)
    return {
        "metadata": {"name": text, "namespace": text, "generation": 1},
        "spec": {"format": text, "paused": False},
        "status": {
            "observedGeneration": 1,
            "owned": {"location": text, "identity": text},
            "timeline": {"latest": text, "latestAction": text},
            "conditions": [{"type": "Ready", "status": "False", "reason": text, "message": text}],
            "services": {text: {"isDue": True, "reason": text, "lastResult": text}},
            "operations": [
                {
                    "id": text,
                    "kind": text,
                    "subject": text,
                    "phase": text,
                    "startedAt": NOW,
                    "instant": text,
                    "message": text,
                }
            ],
            "spent": {text: {"runs": 1}},
        },
    }


@pytest.mark.parametrize("kind", ["cluster", "table"])
def test_a_browser_runs_nothing_of_a_lake_table(kind: str, tmp_path: Path) -> None:
    item = lake_table()
    page = cluster_page([item], 0) if kind == "cluster" else lake_table_page(item)
    path = tmp_path / "page.html"
    path.write_text(with_look(page, "document.documentElement.dataset.looked = 1;"))
    seen = shown(path.as_uri(), tmp_path).document
    html = re.findall("<html[^>]*>", seen)[0]
    assert "data-looked" in html
    assert "data-owned" not in html
    assert not re.findall("<(img|svg|iframe)", seen)
    assert not [payload for payload in PAYLOADS if payload not in unescape(seen)]
    # Without the rule that lets nothing run the texts were no markup either.
    path.write_text(re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page))
    assert "data-owned" not in shown(path.as_uri(), tmp_path).document.partition("<head")[0]
