"""The page of the Python names that `tideline` exports, made from signatures and docstrings.

    python -m tools.api_page docs/api.md

`make reference` does it, and a test fails while they differ.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import tideline
from tideline.errors import TidelineError

_INTRODUCTION = """# Python names

`make reference` writes this page from what `tideline.__all__` exports: signatures and docstrings.
Everything else in the package may change from one release to the next. Names load on first use, so
`import tideline` needs neither Spark nor Arrow. `Options` is a mapping of names to texts, or None.
"""
_WIDTH = 96
_STARS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def api_page() -> str:
    """The whole page."""
    names = [name for name in tideline.__all__ if not name.startswith("__")]
    found = {name: getattr(tideline, name) for name in names}
    functions = {name: value for name, value in found.items() if inspect.isroutine(value)}
    modules = {
        name: module_type for name, module_type in found.items() if inspect.ismodule(module_type)
    }
    classes = {name: kind for name, kind in found.items() if inspect.isclass(kind)}
    enums = {name: kind for name, kind in classes.items() if issubclass(kind, Enum)}
    errors = {name: kind for name, kind in classes.items() if issubclass(kind, Exception)}
    tables = {
        name: kind
        for name, kind in classes.items()
        if name not in enums and name not in errors and not dataclasses.is_dataclass(kind)
    }
    values = {
        name: kind
        for name, kind in classes.items()
        if name not in enums and name not in errors and name not in tables
    }
    parts = [_INTRODUCTION]
    sections: tuple[tuple[str, dict[str, Any], Callable[[str, Any], Iterator[str]]], ...] = (
        ("Functions", functions, _function),
        ("Tables", tables, _class),
        ("Results and values", values, _class),
        ("Enumerations", enums, _enum),
    )
    for title, members, section in sections:
        parts.append(f"\n## {title}\n")
        for name, item in members.items():
            parts += section(f"tideline.{name}", item)
    for name, module in modules.items():
        parts += _errors(f"tideline.{name}", module, exported=errors)
    return "".join(parts)


def _function(name: str, function: Any) -> Iterator[str]:
    yield f"\n### {name}\n\n{_signature(name, function)}\n"
    yield _docstring(function)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield _docstring(kind)
    if dataclasses.is_dataclass(kind):
        yield "\n| field | type |\n|---|---|\n"
        for field in dataclasses.fields(kind):
            typed = _annotation(field.type).replace("|", "\\|")
            yield f"| `{field.name}` | `{typed}` |\n"
    yield from _members(kind)


def _enum(name: str, kind: type[Enum]) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield _docstring(kind)
    yield f"\n{', '.join(f'`{member.name}` (`{member.value}`)' for member in kind)}\n"
    yield from _members(kind)


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties of the class: its own, then those of our base classes."""
    is_value = dataclasses.is_dataclass(kind)
    fields = {attribute.name for attribute in dataclasses.fields(kind)} if is_value else ()
    bases = [base for base in reversed(kind.__mro__) if base.__module__.startswith("tideline.")]
    inherited = {name: member for base in bases for name, member in vars(base).items()}
    for name, member in {**vars(kind), **inherited}.items():
        if name.startswith("_") or name in fields:
            continue
        function: Any = member
        if isinstance(member, (classmethod, staticmethod)):
            function = member.__func__
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        if getter is not None:
            returned = _annotation(inspect.signature(getter).return_annotation)
            yield f"\n#### {kind.__name__}.{name}\n\n```python\n{name}: {returned}\n```\n"
            yield _docstring(getter)
        elif inspect.isfunction(function):
            yield f"\n#### {kind.__name__}.{name}\n\n{_signature(name, function)}\n"
            yield _docstring(function)


def _errors(name: str, module: ModuleType, *, exported: dict[str, type]) -> Iterator[str]:
    """Every error of the module: what to do about it, and the exit code of the command line."""
    yield f"\n## Errors: {name}\n"
    yield _docstring(module)
    kinds = [
        var
        for var in vars(module).values()
        if inspect.isclass(var) and issubclass(var, TidelineError)
    ]
    for kind in kinds:
        base = kind.__bases__[0].__name__
        also = f" Also `tideline.{kind.__name__}`." if kind.__name__ in exported else ""
        yield f"\n### {name}.{kind.__name__}\n"
        yield _docstring(kind)
        yield f"\nA `{base}`; exit code {kind.exit_code}, `{kind.kind}` in JSON.{also}\n"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    shown: list[str] = []
    star_is_due = True
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and star_is_due:
            shown.append("*")
            star_is_due = False
        shown.append(_parameter(parameter))
    returned = _annotation(signature.return_annotation)
    line = f"{name}({', '.join(shown)}) -> {returned}"
    if len(line) > _WIDTH:
        line = f"{name}(\n    " + ",\n    ".join(shown) + f",\n) -> {returned}"
    return f"```python\n{line}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    star = _STARS.get(parameter.kind, "")
    text = f"{star}{parameter.name}: {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default)
    # An object without a repr of its own shows where it is in memory.
    return f"{text} = {'...' if default.startswith('<') else default}"


def _annotation(annotation: object) -> str:
    if annotation is inspect.Signature.empty:
        return "Any"
    if isinstance(annotation, str):
        return annotation
    return str(getattr(annotation, "__name__", annotation))


def _docstring(documented: Any) -> str:
    text = inspect.getdoc(documented)
    return f"\n{text}\n" if text else ""


def main(path: str) -> None:
    """Write the page."""
    Path(path).write_text(api_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
