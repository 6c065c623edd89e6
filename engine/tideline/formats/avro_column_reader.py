"""Avro records as columns of Arrow, all records at once.

A cursor stands in each record. Field by field, numpy reads at all of them, and moves them on: a
number of variable length is read in as many steps as the longest has bytes; of a union those are
read further that are not null, and where it has several types, those of each of them. Texts are cut
out by Arrow, between bounds that ascend with the records. Columns that nobody wants are only
stepped over. Of arrays the n-th items are read in all records that have as many, and put in the
order of the records at last.

Nothing unusual is taken: records that end elsewhere than their bytes do, texts that are none,
numbers out of range, arrays of very many items. What is wrong with these the caller finds out in
another way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.formats.avro_types import resolved_record

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Make: TypeAlias = Callable[[], pa.Array]
_Read: TypeAlias = tuple[_Make, _Numbers]
_BYTES_MAX = (1 << 31) - 1
_SHIFT_MAX = 63
_ROUNDS_MAX = 20_000
"""How many times items of arrays are read, each time those of all records that have one more."""
_FLOATS = {"float": ("<f4", 4), "double": ("<f8", 8)}


def decode_columns(
    schema_json: str, datums: Sequence[bytes], stored: pa.Schema, wanted: Collection[str]
) -> dict[str, pa.Array] | None:
    """The columns of these records that are wanted, in the types of `stored`, which has one for
    each field of the physical schema. None where they are not read here."""
    schema = resolved_record(schema_json, unions=True)
    if schema is None or not datums:
        return None
    body = b"".join(datums)
    if len(body) > _BYTES_MAX:
        return None
    lengths: _Numbers = np.fromiter(map(len, datums), np.int64, len(datums))
    ends = np.cumsum(lengths)
    records = _Records(body, np.frombuffer(body, np.uint8))
    at, made = ends - lengths, {}
    try:
        for part, item in zip(schema["fields"], stored, strict=True):
            make, at = records.read(part["type"], item.type, at, ends)
            if item.name in wanted:
                made[item.name] = make()
        if (at != ends).any():
            return None
    except (_UnusualError, pa.ArrowInvalid):
        return None
    return made


class _UnusualError(Exception):
    """Something that is not read here."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The bytes of all records, one behind the other. Each method reads from a place in some of
    them, which lie before the `ends`, and gives the places behind."""

    body: bytes
    octets: npt.NDArray[np.uint8]
    rounds: Iterator[int] = field(default_factory=lambda: iter(range(_ROUNDS_MAX)))

    def read(self, schema: Any, stored: pa.DataType, at: _Numbers, ends: _Numbers) -> _Read:
        """A value of a type: how to make an array of the values."""
        if isinstance(schema, list):
            return self._union(schema, stored, at, ends)
        kind = schema["type"]
        if kind in ("int", "long"):
            return self._integers(stored, at, ends)
        if kind in ("string", "bytes"):
            lengths, at = self._varints(at, ends)
            return self._slices(stored, at, lengths, ends)
        if kind == "fixed":
            return self._slices(stored, at, np.full(len(at), schema["size"], np.int64), ends)
        if kind in _FLOATS:
            form, size = _FLOATS[kind]
            if (ends - at < size).any():
                raise _UnusualError
            places = at[:, None] + np.arange(size)
            return lambda: pa.array(self.octets[places].view(form)[:, 0]), at + size
        if kind == "boolean":
            flags = self._octets(at, ends)
            if (flags > 1).any():
                raise _UnusualError
            return lambda: pa.array(flags.view(np.bool_)), at + 1
        if kind == "enum":
            return self._symbols(schema["symbols"], at, ends)
        if kind == "array":
            return self._array(schema["items"], stored, at, ends)
        if kind == "null":
            return lambda: pa.nulls(len(at)), at
        return self._record(schema, stored, at, ends)

    def _octets(self, at: _Numbers, ends: _Numbers) -> npt.NDArray[np.uint8]:
        if (at >= ends).any():
            raise _UnusualError
        return self.octets[at]

    def _varints(self, at: _Numbers, ends: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Numbers in zigzag variable length form."""
        octets = self._octets(at, ends)
        found, at = (octets & np.uint8(0x7F)).astype(np.uint64), at + 1
        more, shift = np.flatnonzero(octets > 0x7F), 7
        while len(more):
            octets = self._octets(at[more], ends[more])
            if shift > _SHIFT_MAX or (shift == _SHIFT_MAX and (octets > 1).any()):
                raise _UnusualError
            found[more] |= (octets & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more, shift = more[octets > 0x7F], shift + 7
        signs = -(found & np.uint64(1)).astype(np.int64)
        return (found >> np.uint64(1)).astype(np.int64) ^ signs, at

    def _integers(self, stored: pa.DataType, at: _Numbers, ends: _Numbers) -> _Read:
        found, at = self._varints(at, ends)
        if stored == pa.int32() and len(found):
            limits = np.iinfo(np.int32)
            if int(found.min()) < limits.min or int(found.max()) > limits.max:
                raise _UnusualError
        return lambda: pa.array(found.astype(stored.to_pandas_dtype(), copy=False)), at

    def _slices(
        self, stored: pa.DataType, at: _Numbers, lengths: _Numbers, ends: _Numbers
    ) -> _Read:
        """Bytes of these lengths: every other one of the values between all bounds."""
        if (lengths < 0).any() or (lengths > ends - at).any():
            raise _UnusualError
        behind = at + lengths

        def make() -> pa.Array:
            bounds = np.stack([at, behind], axis=1).astype(np.int32).reshape(-1)
            count = max(0, len(bounds) - 1)
            buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.body)]
            values = pa.Array.from_buffers(pa.binary(), count, buffers)
            # The cast looks at texts, and at lengths.
            return values.take(pa.array(np.arange(0, count, 2))).cast(stored)

        return make, behind

    def _symbols(self, symbols: list[str], at: _Numbers, ends: _Numbers) -> _Read:
        found, at = self._varints(at, ends)
        if ((found < 0) | (found >= len(symbols))).any():
            raise _UnusualError
        return lambda: pa.array(symbols, pa.string()).take(pa.array(found)), at

    def _union(
        self, branches: list[Any], stored: pa.DataType, at: _Numbers, ends: _Numbers
    ) -> _Read:
        kinds = [branch["type"] for branch in branches]
        if len(kinds) - kinds.count("null") > 1:
            return self._members(branches, stored, at, ends)
        number = next((place for place, kind in enumerate(kinds) if kind != "null"), 0)
        chosen, at = self._varints(at, ends)
        is_present = chosen == number
        if is_present.all():
            return self.read(branches[number], stored, at, ends)
        null = kinds.index("null") if "null" in kinds else number
        if (chosen[~is_present] != null).any():
            raise _UnusualError
        present = np.flatnonzero(is_present)
        make, at[present] = self.read(branches[number], stored, at[present], ends[present])
        places = pa.array(np.cumsum(is_present) - 1, mask=~is_present)
        return lambda: make().take(places), at

    def _members(
        self, branches: list[Any], stored: pa.DataType, at: _Numbers, ends: _Numbers
    ) -> _Read:
        """A union of several types: a struct whose members are null but for that of the value; or
        one number of the wider type."""
        chosen, at = self._varints(at, ends)
        if ((chosen < 0) | (chosen >= len(branches))).any():
            raise _UnusualError
        is_struct = pa.types.is_struct(stored)
        kinds = [stored.field(place).type for place in range(stored.num_fields)] * is_struct
        made: list[tuple[_Make, _Numbers]] = []
        is_null = np.zeros(len(at), np.bool_)
        for number, branch in enumerate(branches):
            if branch["type"] == "null":
                is_null = chosen == number
                continue
            own = np.flatnonzero(chosen == number)
            kind = kinds[len(made)] if is_struct else stored
            make, at[own] = self.read(branch, kind, at[own], ends[own])
            made.append((make, own))

        def together() -> pa.Array:
            nulls = pa.array(is_null)
            if is_struct:
                members = [_spread(make(), own, len(is_null)) for make, own in made]
                return pa.StructArray.from_arrays(members, fields=list(stored), mask=nulls)
            found = pa.concat_arrays([make().cast(stored) for make, _ in made])
            return _spread(found, np.concatenate([own for _, own in made]), len(is_null))

        return together, at

    def _array(self, items: Any, stored: Any, at: _Numbers, ends: _Numbers) -> _Read:
        """Blocks of items behind their number, until there is none."""
        count, at = len(at), at.copy()
        makes: list[_Make] = []
        owners: list[_Numbers] = [np.zeros(0, np.int64)]
        open_ones = np.arange(count)
        while len(open_ones):
            left = self._block_lengths(open_ones, at, ends)
            open_ones = active = open_ones[left > 0]
            left = left[left > 0]
            while len(active):
                begins = at[active]
                make, at[active] = self.read(items, stored.value_type, begins, ends[active])
                if next(self.rounds, None) is None or (at[active] == begins).any():
                    raise _UnusualError
                makes.append(make)
                owners.append(active)
                active, left = active[left > 1], left[left > 1] - 1

        def together() -> pa.Array:
            if not makes:
                return pa.array([[]] * count, stored)
            owner = np.concatenate(owners)
            order = pa.array(np.argsort(owner, kind="stable"))
            values = pa.concat_arrays([make() for make in makes]).take(order)
            bounds = np.append(0, np.cumsum(np.bincount(owner, minlength=count)))
            return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values, type=stored)

        return together, at

    def _block_lengths(self, of: _Numbers, at: _Numbers, ends: _Numbers) -> _Numbers:
        """How many items come in these arrays, whose places are moved on. A number below zero has
        the bytes of the block behind it."""
        lengths, at[of] = self._varints(at[of], ends[of])
        sized = of[lengths < 0]
        if len(sized):
            _, at[sized] = self._varints(at[sized], ends[sized])
        lengths = np.abs(lengths)
        # Each item has a byte.
        if ((lengths < 0) | (lengths > ends[of] - at[of])).any():
            raise _UnusualError
        return lengths

    def _record(self, schema: Any, stored: pa.DataType, at: _Numbers, ends: _Numbers) -> _Read:
        made: list[_Make] = []
        count = len(at)
        for part, item in zip(schema["fields"], stored, strict=True):
            make, at = self.read(part["type"], item.type, at, ends)
            made.append(make)

        def together() -> pa.Array:
            if not made:
                return pa.array([{}] * count, stored)
            return pa.StructArray.from_arrays([make() for make in made], fields=list(stored))

        return together, at


def _spread(values: pa.Array, owners: _Numbers, count: int) -> pa.Array:
    """Values at the places of these owners, of so many; nothing at the others."""
    places = np.zeros(count, np.int64)
    has_none = np.ones(count, np.bool_)
    places[owners], has_none[owners] = np.arange(len(owners)), False
    return values.take(pa.array(places, mask=has_none))
