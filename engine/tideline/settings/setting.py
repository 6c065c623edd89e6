"""One setting as a value: its names, what it does here, where it may stand.

Honoured settings do what they say. Harmless ones are taken and do nothing, for a reason that their
sentence gives. Refused ones would change what is written, and are not taken; their sentence says
what to do instead. One that is refused or harmless may have `words`: only these values are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.errors import ConfigError


class Support(Enum):
    """What Tideline does with a setting."""

    HONOURED = "honoured"
    HARMLESS = "harmless"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


class SettingPlace(Enum):
    """Where settings are given, or found; the value is how messages call it."""

    TABLE = "a property of the table"
    WRITE = "an option of a write"
    SERVICE = "an option of a service"
    LAKE_TABLE = "a property of a LakeTable"
    STORED = "a stored property"

    def __str__(self) -> str:
        return self.value


class Kind(Enum):
    """How the text of a setting is understood."""

    TEXT = "text"
    NAMES = "names, comma-separated"
    FLAG = "true or false"
    INTEGER = "an integer"
    DECIMAL = "a number above 0"
    WORD = "a word"


class Risk(Enum):
    """What goes wrong where a stored setting is not honoured.

    MERGING: rows would be merged in another way than the table's other writers do. LOCKING: other
    writers would not see our lock, nor we theirs.
    """

    MERGING = "merging"
    LOCKING = "locking"


ANYWHERE = frozenset(
    {
        SettingPlace.TABLE,
        SettingPlace.WRITE,
        SettingPlace.SERVICE,
        SettingPlace.LAKE_TABLE,
        SettingPlace.STORED,
    }
)
STORED_ONLY = frozenset({SettingPlace.STORED})
FAMILY = ".*"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting; see the module's text. A name that ends in `.*` stands for all that begin so.

    `aliases` are names of the same setting, of older Hudi versions and of Flink. An empty `default`
    is none; `hudi_default` is Hudi's where it differs. `settles_table`: it says what the table is,
    so that a write may repeat but not change it. `risk` is what goes wrong where one is stored in
    a table with a value that is refused, and nothing may write to it.
    """

    name: str
    sentence: str
    support: Support = Support.HONOURED
    kind: Kind = Kind.TEXT
    default: str = ""
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    at_least: int = 0
    hudi_default: str = ""
    places: frozenset[SettingPlace] = ANYWHERE
    settles_table: bool = False
    risk: Risk | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def is_family(self) -> bool:
        return self.name.endswith(FAMILY)

    @property
    def expected(self) -> str:
        """What a value has to be, for messages."""
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.kind is Kind.INTEGER:
            return f"an integer of at least {self.at_least}"
        return str(self.kind.value)

    def accepts(self, text: str) -> bool:
        """Whether a value can be read, and is one that is taken."""
        if self.words:
            folded = {word.casefold() for word in self.words}
            # Hudi's values are often classes, with or without their packages.
            return bool(folded & {text.casefold(), text.rpartition(".")[2].casefold()})
        if self.support is not Support.HONOURED:
            return self.support is Support.HARMLESS
        return is_readable(self, text)


def is_readable(setting: Setting, text: str) -> bool:
    """Whether the text is of the setting's kind."""
    try:
        match setting.kind:
            case Kind.FLAG:
                read_flag(text)
            case Kind.INTEGER:
                read_integer(text, setting.at_least)
            case Kind.DECIMAL:
                read_decimal(text)
            case _:
                pass
    except ValueError:
        return False
    return True


def read_flag(text: str) -> bool:
    """True or false. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def read_integer(text: str, at_least: int) -> int:
    """A whole number. Raises ValueError."""
    number = int(text)
    if number < at_least:
        raise ValueError(text)
    return number


def read_decimal(text: str) -> float:
    """A finite number above 0. Raises ValueError."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def refusal(setting: Setting, given_name: str, text: str) -> ConfigError:
    """The error for a value that is not taken."""
    if setting.support is Support.HONOURED:
        return ConfigError(f"{given_name} must be {setting.expected}", value=text)
    taken = f" (taken: {', '.join(setting.words)})" if setting.words else ""
    return ConfigError(f"{given_name} is not supported: {setting.sentence}{taken}", value=text)
