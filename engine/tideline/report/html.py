"""The parts that all pages are made of. Pure; texts are escaped where they come in.

A page is one file that fetches nothing, light or dark as its reader likes it. Its policy, in its
head and in `headers_of`, lets a browser run the scripts that the page was made with and no other,
and load nothing: should a text of a table ever become markup, it does nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from tideline.report.level import Level

_BEFORE_POLICY = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" content="'
)
_NOTHING = "'none'"
_CLASSES = {Level.HEALTHY: "good", Level.DUE: "due", Level.BROKEN: "bad"}


def document(title: str, body: str, data: str = "", *scripts: str, reload_s: int = 0) -> str:
    """The page. `data` is HTML of its own; it loads itself again every `reload_s` seconds."""
    style = (files("tideline.report") / "page.css").read_text(encoding="utf-8")
    # As browsers read them, and so as they hash them.
    scripts = tuple(script.replace("\r\n", "\n").replace("\r", "\n") for script in scripts)
    again = f'<meta http-equiv="refresh" content="{reload_s}">\n' if reload_s else ""
    running = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (
        f'{_BEFORE_POLICY}{_policy(scripts)}">\n<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{again}'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{data}\n{running}</body>\n</html>\n"
    )


def headers_of(page: str) -> dict[str, str]:
    """The headers that a page is served with; that of a page without a policy allows no script."""
    inside = page.removeprefix(_BEFORE_POLICY)
    policy = inside.partition('"')[0] if inside != page else _policy(())
    return {
        "Content-Type": "text/html; charset=utf-8",
        # What a policy in a page cannot say.
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy. Styles may be inline: charts have some, and they fetch nothing."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes or _NOTHING}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def pill(level: Level, sentence: str) -> str:
    """How something is, in a word and in a line."""
    return f'<p class="health {_CLASSES[level]}"><b>{level.value}</b> {escape(sentence)}</p>'


def dot(level: Level) -> str:
    """The same as a coloured dot, for a table."""
    return f'<span class="dot {_CLASSES[level]}" title="{level.value}"></span>'


def section(title: str, about: str, content: str) -> str:
    """A card with a heading; `content` is HTML."""
    note = f"<p>{escape(about)}</p>" if about else ""
    return f"<section><h2>{escape(title)}</h2>{note}{content}</section>"


def table(heads: Iterable[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; columns without content are left out."""
    columns = [
        (name, cells) for name, *cells in zip(heads, *rows, strict=True) if any(cells) or not rows
    ]
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    lines = zip(*(cells for _, cells in columns), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in lines)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def ago(age_ms: int) -> str:
    """An age, as people say it."""
    seconds = max(age_ms, 0) / 1000
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def in_script(script: str) -> str:
    """Nothing in a script may look like its end."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
