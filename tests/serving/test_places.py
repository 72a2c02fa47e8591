"""Fair shares of places for requests, and of connections and uploads without one."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving import places
from dragoman.serving.limits import Refused
from dragoman.serving.places import BoundedPool, Places


class Requests:
    """Requests that hold or wait for a place until they are ended."""

    def __init__(self, shared: Places) -> None:
        self.shared, self.ends, self.order = shared, dict[asyncio.Task[None], asyncio.Event](), list[str]()

    async def begin(self, client: str, most: int | None = None) -> asyncio.Task[None]:
        async def request() -> None:
            async with self.shared.place(client, most):
                self.order.append(client)
                await end.wait()

        end = asyncio.Event()
        task = asyncio.create_task(request())
        self.ends[task] = end
        await self.settle()
        return task

    async def end(self, task: asyncio.Task[None]) -> None:
        self.ends.pop(task).set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        for task in self.ends:
            task.cancel()
        await asyncio.gather(*self.ends, return_exceptions=True)


@pytest.mark.parametrize(("clients", "share"), [(1, 15), (2, 10), (4, 6)])
def test_each_of_n_clients_gets_one_part_in_n_plus_one(clients: int, share: int) -> None:
    async def hold() -> None:
        requests = Requests(Places(30))
        for _ in range(30):
            for client in range(clients):
                await requests.begin(str(client))
        held = [requests.order.count(str(client)) for client in range(clients)]
        assert set(held) == {share}
        await requests.end_all()

    asyncio.run(hold())


def test_a_single_place_is_used() -> None:
    async def hold() -> None:
        async with Places(1).place("one"):
            pass

    asyncio.run(hold())


def test_the_client_with_the_fewest_places_is_next() -> None:
    async def hold() -> None:
        requests = Requests(Places(6))
        held = [await requests.begin("greedy") for _ in range(9)]
        for client in "aabb":
            await requests.begin(client)
        assert requests.order == ["greedy"] * 3 + ["a", "a", "b"]
        for task in held[:3]:
            await requests.end(task)
        assert requests.order[6:] == ["greedy", "b"]  # of two clients with one place, who waits longest
        await requests.end_all()

    asyncio.run(hold())


def test_a_client_may_hold_no_more_than_its_own_limit() -> None:
    async def hold() -> None:
        requests = Requests(Places(30))
        tasks = [await requests.begin("one", 2) for _ in range(5)]
        assert len(requests.order) == 2
        for task in tasks:
            await requests.end(task)
        assert len(requests.order) == 5

    asyncio.run(hold())


def test_a_turn_comes_in_time_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.02)

    async def wait() -> None:
        shared = Places(1)
        async with shared.place("one"):
            with pytest.raises(Refused, match="busy") as caught:
                async with shared.place("other"):
                    pass
            assert (caught.value.status, caught.value.retry_after) == (503, 1)
            leaving = asyncio.get_running_loop().create_future()
            leaving.set_result(None)
            with pytest.raises(Refused) as caught:
                async with shared.place("other", leaving=leaving):
                    pass
            assert caught.value.status == 499
        async with shared.place("other"):
            pass

    asyncio.run(wait())


@given(
    st.integers(1, 9), st.lists(st.tuples(st.sampled_from("begin end cancel".split()), st.integers(0, 7)), max_size=60)
)
def test_no_place_is_lost_or_kept_from_who_may_have_it(most: int, steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        shared = Places(most)
        requests = Requests(shared)
        for action, number in steps:
            tasks = list(requests.ends)
            if action == "begin":
                await requests.begin("abcd"[number % 4])
            elif tasks and action == "end":
                await requests.end(tasks[number % len(tasks)])
            elif tasks:
                task = tasks[number % len(tasks)]
                del requests.ends[task]
                task.cancel()
                if number % 2:  # else, others act before it notices
                    await requests.settle()
            assert shared._free >= 0 and shared._free + shared._held.total() == most
        await requests.settle()
        assert not any(shared._held[client] < shared._free for client in shared._turns)
        await requests.end_all()
        assert shared._free == most and not shared._held and not shared._turns

    asyncio.run(play())


class Member(asyncio.Transport):
    is_dropped = False

    def abort(self) -> None:
        self.is_dropped = True


@given(st.integers(1, 6), st.lists(st.sampled_from("abc"), max_size=30))
def test_a_full_pool_drops_the_oldest_of_the_greediest(most: int, owners: list[str]) -> None:
    pool, kept = BoundedPool(most), list[tuple[str, Member]]()
    for owner in owners:
        member = Member()
        pool.add(owner, member)
        kept.append((owner, member))
        counts = {owner: sum(known == owner for known, _ in kept) for owner, _ in kept}
        if len(kept) > most:
            ((loser, dropped),) = [pair for pair in kept if pair[1].is_dropped]
            assert counts[loser] == max(counts.values())
            assert dropped is next(member for known, member in kept if known == loser)
            kept.remove((loser, dropped))
        assert len(pool._owners) == len(kept) and not any(member.is_dropped for _, member in kept)


def test_members_without_an_owner_are_dropped_last() -> None:
    pool, proxies, member = BoundedPool(5), [Member() for _ in range(5)], Member()
    for proxy in proxies:
        pool.add("", proxy)
    pool.add("a client", member)
    assert member.is_dropped and not any(proxy.is_dropped for proxy in proxies)
    pool.add("", Member())
    assert proxies[0].is_dropped


def test_a_pool_is_closed_to_who_fills_it() -> None:
    pool, members = BoundedPool(2), [Member(), Member()]
    for member in members:
        assert not pool.is_closed_to("greedy")
        pool.add("greedy", member)
    assert pool.is_closed_to("greedy") and not pool.is_closed_to("other")
    pool.discard(members[0])
    pool.discard(members[0])
    assert not pool.is_closed_to("greedy") and len(pool._owners) == 1
