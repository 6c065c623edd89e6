"""First-fit packing of weighted items into bins, with a bounded number of open bins (Iceberg's).

1. An item goes to the first open bin where it still fits by weight and by number of items.
2. With none, it opens a bin of its own, however heavy it is.
3. When more than `lookback` bins are open, one closes: the oldest, or the heaviest.
4. At the end the open bins close, oldest first.

Pure: items stay in order within a bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


def pack(
    items: Iterable[Item],
    weight: Callable[[Item], int],
    target: int,
    *,
    lookback: int = 1,
    largest_first: bool = False,
    items_max: int | None = None,
) -> list[list[Item]]:
    """The bins in the order in which they close."""
    open_bins: list[_Bin[Item]] = []
    closed: list[list[Item]] = []
    for item in items:
        item_weight = weight(item)
        for candidate in open_bins:
            if candidate.takes(item_weight, target, items_max):
                candidate.add(item, item_weight)
                break
        else:
            open_bins.append(_Bin([item], item_weight))
            if len(open_bins) > lookback:
                closed.append(open_bins.pop(_next_to_close(open_bins, largest_first)).items)
    return closed + [group.items for group in open_bins]


def pack_end(
    items: Sequence[Item],
    weight: Callable[[Item], int],
    target: int,
    *,
    lookback: int = 1,
    largest_first: bool = False,
    items_max: int | None = None,
) -> list[list[Item]]:
    """As `pack`, but filled from the end: what does not fill a bin is left in the first one."""
    bins = pack(
        reversed(items),
        weight,
        target,
        lookback=lookback,
        largest_first=largest_first,
        items_max=items_max,
    )
    return [size_bin[::-1] for size_bin in reversed(bins)]


@dataclass(slots=True)
class _Bin(Generic[Item]):
    items: list[Item] = field(default_factory=list)
    weight: int = 0

    def takes(self, item_weight: int, target: int, items_max: int | None) -> bool:
        fits = self.weight + item_weight <= target
        return fits and (items_max is None or len(self.items) < items_max)

    def add(self, item: Item, item_weight: int) -> None:
        self.items.append(item)
        self.weight += item_weight


def _next_to_close(open_bins: Sequence[_Bin[Item]], largest_first: bool) -> int:
    if not largest_first:
        return 0
    return max(range(len(open_bins)), key=lambda position: open_bins[position].weight)
