"""Vega-Lite as one script for a page that fetches nothing: made once per release of vl-convert."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from tideline.cache_directory import cache_directory
from tideline.distribution import installation
from tideline.errors import ConfigError

_PACKAGE = "vl-convert-python"
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def vega_script() -> str:
    """A script that defines `vegaEmbed`. Raises ConfigError when the package is missing."""
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigError(
            f"a page with charts needs the package {_PACKAGE}: {installation('report')}"
        ) from error
    path = cache_directory() / "libraries" / f"vega-{version(_PACKAGE)}.js"
    if not path.exists():
        _write(path, vl_convert.javascript_bundle(_SNIPPET))
    return path.read_text(encoding="utf-8")


def _write(path: Path, script: str) -> None:
    """Other processes see the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex}")
    part.write_text(script, encoding="utf-8")
    part.replace(path)
