"""The fair order of waiting sentences, in Python and in the native engine."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS
from headwise.engine.base import SearchSentence
from headwise.engine.native.job import SearchJob
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.fair import TURN, FairQueue
from native_engines import compiled
from scheduler_engines import native

CLIENTS = st.sampled_from(["document", "page", "robot"])
ITEMS = st.lists(st.tuples(CLIENTS, st.integers(1, 300)), max_size=40)  # clients and costs


def filled(items: list[tuple[str, int]]) -> FairQueue[int]:
    """Return a queue of the items' places in the list."""
    queue: FairQueue[int] = FairQueue()
    for place, (client, cost) in enumerate(items):
        queue.add(client, cost, place)
    return queue


@given(ITEMS)
def test_each_client_is_served_in_order_and_all_are_served(items: list[tuple[str, int]]) -> None:
    queue = filled(items)
    assert sorted(queue) == list(range(len(items)))
    assert len(queue) == len(items)
    order = [queue.pop() for _ in items]
    assert not queue
    for client in {client for client, _ in items}:
        places = [place for place in order if items[place][0] == client]
        assert places == [place for place, (name, _) in enumerate(items) if name == client]


@given(ITEMS)
def test_no_waiting_client_gets_more_than_another(items: list[tuple[str, int]]) -> None:
    """The bound of deficit round robin: a turn and the cost that the credit covered ahead."""
    queue, waiting, served = filled(items), Counter(client for client, _ in items), Counter[str]()
    while queue:
        client, cost = items[queue.pop()]
        served[client] += cost
        waiting[client] -= 1
        totals = [served[name] for name, left in waiting.items() if left]
        if totals:
            assert max(totals) - min(totals) <= 2 * TURN + max(cost for _, cost in items)


@given(st.integers(1, 6), st.integers(1, TURN))
def test_a_newcomer_waits_for_at_most_one_turn_of_every_other_client(clients: int, cost: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(200):
        for client in range(clients):
            queue.add(f"document {client}", 30, "document")
    for _ in range(50):
        queue.pop()
    queue.add("page", cost, "page")
    before = 0
    while queue.pop() != "page":
        before += 1
    assert before <= clients * (TURN // 30 + 1)


def test_a_client_that_always_has_one_waiting_takes_no_more_than_its_share() -> None:
    """It leaves the queue and comes back with every sentence, which must not bring it to the front again."""
    queue = filled([("document", 50)] * 100)
    queue.add("page", 50, -1)
    served = Counter[str]()
    for _ in range(60):
        found = queue.pop()
        served["page" if found == -1 else "document"] += 1
        if found == -1:
            queue.add("page", 50, -1)
    assert served["document"] >= 30


@given(ITEMS, st.sets(st.integers(0, 39)))
def test_removed_items_are_never_served_and_cost_nothing(items: list[tuple[str, int]], gone: set[int]) -> None:
    queue, kept = filled(items), [item for place, item in enumerate(items) if place not in gone]
    for place, (client, _) in enumerate(items):
        assert place not in gone or queue.remove(client, place + 1)
        assert place not in gone or not queue.remove(client, place + 1)
    assert not queue.remove("nobody", 1)
    assert Counter(items[queue.pop()] for _ in kept) == Counter(kept)
    assert not queue


@given(ITEMS, st.integers(1, 300))
def test_what_is_accepted_leaves_the_queue_by_turns(items: list[tuple[str, int]], most: int) -> None:
    queue = filled(items)
    found = queue.pop_where(lambda place: items[place][1] <= most)
    expected = [place for place, (_, cost) in enumerate(items) if cost <= most]
    assert sorted(found) == expected
    assert sorted(queue) == [place for place in range(len(items)) if place not in expected]
    rounds = Counter[str]()  # one of each client that has any left, before a second one of any
    for place in found:
        rounds[items[place][0]] += 1
        left = Counter(items[each][0] for each in expected)
        assert all(rounds[name] >= rounds[items[place][0]] - 1 or rounds[name] == left[name] for name in left)


@compiled
@given(
    st.lists(st.tuples(CLIENTS, st.integers(1, 40), st.integers(1, 8)), min_size=1, max_size=30),
    st.sets(st.integers(0, 29)),
)
def test_the_native_order_is_the_same(items: list[tuple[str, int, int]], gone: set[int]) -> None:
    queue: FairQueue[int] = FairQueue()
    with SearchJob(native().models, SYMBOLS) as job:
        for place, (client, length, beam) in enumerate(items):
            sentence = SearchSentence([5] * (length - 1) + [EOS], SearchOptions(beam=beam, max_length=1))
            assert job.add([sentence], client=hash(client)) == place
            queue.add(client, length * beam, place)
        for place in gone & set(range(len(items))):
            job.cancel(place)
            queue.remove(items[place][0], place + 1)
        job.close()
        job.start(1, 1)
        found = [each.number for each in job.collect(job.wait())]
    assert found == [queue.pop() for _ in range(len(queue))]
