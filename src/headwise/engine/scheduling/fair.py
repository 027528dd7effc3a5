"""The fair order in which waiting sentences are searched: clients take turns, each with its sentences as they arrived.

Deficit round robin (Shreedhar and Varghese 1996, "Efficient fair queuing using deficit round-robin"): a client's turn
lasts while its credit covers the cost of its next sentence; then `TURN` is added to the credit, and the next client has
its turn. A client that has nothing waiting loses its credit, and starts again after all others. So each client gets the
same share of the batches, however many sentences it has, and waits for at most one turn of every other client.

queue.h in `headwise.native` has the same order in C++.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

TURN = 128  # source tokens times hypotheses: one or two sentences with a beam of 4

Item = TypeVar("Item")


@dataclass
class _Client(Generic[Item]):
    credit: int = TURN
    waiting: dict[int, tuple[int, Item]] = field(default_factory=dict)  # cost and item, by number


class FairQueue(Generic[Item]):
    """Items with costs, in the fair order of their clients."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, _Client[Item]] = OrderedDict()  # clients with waiting items
        self._next_number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return (item for client in self._turns.values() for _, item in client.waiting.values())

    def add(self, client: str, cost: int, item: Item) -> int:
        """Append an item; returns its number, for `remove`."""
        self._next_number += 1
        self._turns.setdefault(client, _Client()).waiting[self._next_number] = (cost, item)
        self._count += 1
        return self._next_number

    def remove(self, client: str, number: int) -> bool:
        """Remove an item at no cost; returns whether it was waiting."""
        waiting = client in self._turns and number in self._turns[client].waiting
        if waiting:
            self._pop(client, number)
        return waiting

    def pop(self) -> Item:
        """Return the item whose turn it is, and remove it; there must be one."""
        while True:
            name, client = next(iter(self._turns.items()))
            number, (cost, _) = next(iter(client.waiting.items()))
            if cost <= client.credit:
                client.credit -= cost
                return self._pop(name, number)
            client.credit += TURN
            self._turns.move_to_end(name)

    def pop_where(self, accepts: Callable[[Item], bool]) -> list[Item]:
        """Return the items that are accepted, one of each client after the other, and remove them.

        Each is asked for once. They are charged to their clients, even beyond their credit.
        """
        accepted = []
        queues = [(name, client, iter(list(client.waiting.items()))) for name, client in self._turns.items()]
        while queues:
            remaining = []
            for name, client, items in queues:
                found = next(((number, cost) for number, (cost, item) in items if accepts(item)), None)
                if found is None:
                    continue
                number, cost = found
                client.credit -= cost
                accepted.append(self._pop(name, number))
                remaining.append((name, client, items))
            queues = remaining
        return accepted

    def _pop(self, name: str, number: int) -> Item:
        client = self._turns[name]
        _, item = client.waiting.pop(number)
        self._count -= 1
        if not client.waiting:
            del self._turns[name]
        return item
