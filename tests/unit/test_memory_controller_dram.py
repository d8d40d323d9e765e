"""Three ports before a DRAM: in any order, answers are those of the order of issue."""

import collections
import random

import pytest
from memory_agents import (BFLOAT16, DMA, DUPLICATE_UPDATE, INCOMING, INT32, LINK, LOCAL,
                           MEMORY_ERROR, MISSING_DTYPE, NO_TILE, PARTIAL_ELEMENT, PRODUCER, READ,
                           STORE, UPDATE, Access, TouchModel, beat, expected_responses,
                           make_request, plain_commit, plain_read)
from test_memory_controller import BUILTIN, Bench, random_requests, saturated

from t3hw.dram import DramTiming
from t3hw.hdl.seams import Policy

#: Two banks with rows of two beats, and refreshes that a short run meets.
TIMING = DramTiming.preset("hbm2").replace(
    bank_groups=2, banks=1, rows=256, page_bytes=64, t_refi="700 ns", t_rfc="60 ns")


def config_of(window):
    return BUILTIN.replace(memory="dram", dram=TIMING.replace(window=window))


class DramBench(Bench):
    """`check` as of a memory that answers the accesses of different beats in any order."""

    def check(self):
        touch = TouchModel(self.config)
        accesses, errors = [], []
        for request in self.issued():
            write, strobe, added, causes = touch.request(request)
            accesses.append(Access(write=int(write), add=added, strobe=strobe, **{
                field: request[field]
                for field in ("dtype", "source", "tag", "last", "address", "data", "tile")}))
            errors += [(cause, request["address"]) for cause in causes]
        reads, commits, failed = expected_responses(self.memory, accesses,
                                                    size=self.config.memory_bytes)
        errors += [(MEMORY_ERROR, address) for address, _ in failed]
        for source in (PRODUCER, LINK, DMA):
            assert [plain_read(read) for _, read in self.reads
                    if read.source.value == source] == [
                        read for read in reads if read[0] == source], source
        assert (collections.Counter(repr(plain_commit(commit)) for _, commit in self.commits)
                == collections.Counter(map(repr, commits)))
        found = [(error.cause.value, error.address) for _, error in self.errors]
        assert sorted(found) == sorted(errors)
        self.check_occupancy()
        return {cause for cause, _ in found}


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("window", [2, 5])
def test_random_traffic_from_three_sources(window, policy):
    seed = 10 * window + policy.value
    print("seed", seed)
    rng = random.Random(seed)
    config = config_of(window)
    beats = [beat(config, number) for number in (0, 1, 2, 3, 6, 64)]
    addresses = beats * 3 + [1024]
    ports = {name: random_requests(rng, config, source, addresses, [INT32] * 3 + [BFLOAT16], 60)
             for name, source in (("compute", PRODUCER), ("ingress", LINK), ("dma", DMA))}

    def dma():
        yield from ports["dma"]
        while bench.answers < 180:
            yield None
        for address in beats:
            yield make_request(config, READ, source=DMA, address=address)

    bench = DramBench(config, compute=ports["compute"], ingress=ports["ingress"], dma=dma(),
                      pace=rng.choice([0.9, 1.0]), policy=policy, limit=rng.choice([0, 5]),
                      threshold=rng.choice([1, window]), seed=seed)
    bench.run(answers=180 + len(beats))
    assert bench.check() == {DUPLICATE_UPDATE, PARTIAL_ELEMENT, MISSING_DTYPE, MEMORY_ERROR}


@pytest.mark.parametrize("window", [2, 7])
def test_who_sees_a_flag_finds_the_data_that_were_stored_before_it(window):
    """Reads keep the flag's row open, so it is committed before data of other rows."""
    config = config_of(window)
    flag, data = 0, [beat(config, number) for number in (64, 65, 3, 130, 66)]
    rounds = 6
    seen = []

    def flags():
        return sum(commit.address == flag for _, commit in bench.commits)

    def ingress():
        for number in range(1, rounds + 1):
            while len(seen) < number - 1:
                yield None
            for address in (*data, flag):
                yield make_request(config, STORE, source=LINK, address=address, data=number,
                                   tile=NO_TILE)

    def compute():
        for number in range(1, rounds + 1):
            turn = 0
            while flags() < number:
                turn += 1
                yield make_request(config, READ, address=flag, last=0) if turn % 2 == 0 else None
            before = len(bench.commits)
            first = len(bench.reads)
            for address in data:
                yield make_request(config, READ, address=address, last=1)
            while sum(read.last for _, read in bench.reads) < number * len(data):
                yield None
            seen.append(before < number * (len(data) + 1))
            assert [read.data for _, read in bench.reads[first:] if read.last] == (
                [number] * len(data))

    bench = DramBench(config, ingress=ingress(), compute=compute())
    bench.run(cycles=1600)
    assert len(seen) == rounds
    assert any(seen), "the flag never came before data"
    bench.check()


@pytest.mark.parametrize("window, threshold", [(2, 1), (2, 2), (9, 1), (9, 5), (9, 9)])
def test_a_threshold_is_reached_and_not_exceeded(window, threshold):
    config = config_of(window)
    bench = DramBench(config, ingress=saturated(config, LINK), policy=Policy.MCA,
                      threshold=threshold)
    bench.run(cycles=600)
    bench.check_occupancy()
    assert max(occupancy for occupancy, _ in bench.occupancies) == threshold
    assert len(bench.commits) > 20 and bench.count("forced") == 0


@pytest.mark.parametrize("window", [2, 5])
def test_first_touch_in_both_orders_gives_the_same_sums(window):
    config = config_of(window)
    beats = [beat(config, number) for number in range(0, 12)]

    def updates(source, writer, rng):
        for address in rng.sample(beats, len(beats)):
            yield make_request(config, UPDATE, source=source, address=address,
                               data=address + 1 << 16 * writer, tile=NO_TILE,
                               touch=(address // config.beat_bytes, writer, 1))

    def dma():
        while len(bench.commits) < 2 * len(beats):
            yield None
        for address in beats:
            yield make_request(config, READ, source=DMA, address=address)

    rng = random.Random(window)
    bench = DramBench(config, compute=updates(PRODUCER, LOCAL, rng),
                      ingress=updates(LINK, INCOMING, rng), dma=dma())
    bench.run(answers=3 * len(beats))
    assert [read.data for _, read in bench.reads] == [
        address + 1 << 16 | address + 1 for address in beats]
    assert bench.check() == set()
