"""Pools by shuffle sharding, and shares by start-time fair queuing."""

from collections import Counter

import pytest

from djqueue.policy import fair
from djqueue.policy.fair import Pool, pools_of


def test_a_tenant_has_the_same_pools_in_every_process_and_release() -> None:
    assert [pools_of(name, 8) for name in ("acme", "globex", "initech")] == [(2, 3), (4, 7), (5, 6)]


def test_each_pool_serves_its_share_of_the_tenants() -> None:
    count = Counter(pool for n in range(8_000) for pool in pools_of(f"t{n}", 8, 2))

    assert set(count) == set(range(1, 9))
    assert all(1_800 < each < 2_200 for each in count.values())


def test_few_tenants_share_all_their_pools() -> None:
    mine = pools_of("noisy", 8, 2)
    alike = sum(pools_of(f"t{n}", 8, 2) == mine for n in range(28_000))

    assert 850 < alike < 1_150  # one in 28


def test_the_sets_of_a_pool_are_those_that_contain_it() -> None:
    pool = Pool.parse("3/8")

    assert (pool.sets, len(pool.mine)) == (28, 7)
    for n in range(500):
        tenant = f"t{n}"
        number = fair.shard(fair.gate(fair.Gate.TENANT, tenant), pool.sets)
        assert (number in pool.mine) == (3 in pools_of(tenant, 8))


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "1/65", "a/b", "1/8:0", "1/8:9", "1/64:9", "-1/8", "1/8/2"])
def test_what_is_no_pool_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example"):
        Pool.parse(text)


def test_one_pool_of_one_serves_all() -> None:
    assert Pool.parse("1/1").mine == [0]


def test_shares_follow_the_weights_whatever_the_jobs_last() -> None:
    """A simulation of one server: who has the least virtual time runs next."""
    weights, seconds = {"a": 1.0, "b": 4.0}, {"a": 1.0, "b": 10.0}
    virtual, had = {"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}
    for _ in range(2_000):
        tenant = min(virtual, key=virtual.__getitem__)
        begin = fair.start(virtual[tenant], min(virtual.values()))
        virtual[tenant] = fair.finish(begin, seconds[tenant], weights[tenant])
        had[tenant] += seconds[tenant]

    assert had["b"] / had["a"] == pytest.approx(4, rel=0.02)


def test_a_rest_saves_nothing_up() -> None:
    assert fair.start(3.0, 100.0) == 100.0
    assert fair.start(None, 5.0) == 5.0
