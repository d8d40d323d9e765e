"""GEMM engine: runs of any legal settings, one after the other in one engine."""

import random

import pytest

from test_gemm_engine import CONFIGS, Bench, check, job


def draw(rng, config, units, run):
    """Legal settings of a short run, small and large ones by turns, with corners often."""
    size = config.beat_bytes
    tile = rng.choice([0, 1, 2, 2, 3, 8 if size <= 16 else 4])
    burst = rng.choice([0, 1, 3, 6])
    wavefronts = rng.choice([1, 2, 1 << config.wf_width])
    if tile >= 4:
        wavefronts = min(wavefronts, 2)
    workgroups = rng.choice([1, 2, units, units + 1, 2 * units]) if run % 2 else rng.randint(1, 12)
    workgroups = min(workgroups, 3 if tile >= 4 else 12)
    tile_bytes = size << tile
    stream_log2 = burst + size.bit_length() - 1 + rng.choice([0, 1, 3])
    return job(
        config, units=rng.choice([1, units, rng.randint(1, units)]), workgroups=workgroups,
        first_workgroup=rng.choice([0, workgroups - 1, rng.randrange(workgroups)]),
        chunk_workgroups=rng.choice([1, 2, workgroups, 200]), steps=rng.choice([1, 1, 2, 5]),
        step_cycles=rng.choice([0, 1, 255, 256, 700, 256 * 30]), burst_log2=burst,
        streams_log2=rng.choice([0, 1, 4]), stream_bytes_log2=stream_log2,
        read_base=(rng.randrange(64) << burst) * size, base=rng.randrange(16) * tile_bytes,
        workgroup_bytes=wavefronts * tile_bytes, wavefronts=wavefronts, tile_beats_log2=tile,
        seed=rng.getrandbits(32), and_mask=rng.choice([0xFFFFFFFF, 0x7FFF3FFF]),
        or_mask=rng.choice([0, 0x100]))


@pytest.mark.parametrize("name, units, seed", [
    ("middle", 1, 1), ("middle", 5, 2), ("narrow", 2, 3), ("narrow", 8, 4), ("wide", 3, 5)])
def test_random_runs_one_after_the_other(name, units, seed):
    config = CONFIGS[name]
    rng = random.Random(seed)
    latency = rng.choice([1, 8, 60])
    bench = Bench(config, units=units, seed=seed, pace=rng.choice([1.0, 0.5]),
                  read_latency=lambda: rng.randint(1, latency),
                  write_latency=lambda: rng.randint(1, latency))

    async def runs(ctx):
        for run in range(5):
            settings = draw(rng, config, units, run)
            reads = tuple(rng.choice([0, 0, 1 / 256, 1, 2.5, 7 + 9 / 256, 70])
                          for _ in range(bench.stages))
            print(run, settings, reads)
            await bench.prepare(ctx, settings, reads)
            results = await bench.go(ctx, 30_000)
            check(bench, settings, reads)
            assert results["write_beats"] == len(bench.memory.beats)
            assert results["read_beats"] == len(bench.memory.reads) << settings["burst_log2"]
            for log in (bench.memory.reads, bench.memory.writes, bench.memory.beats,
                        bench.memory.memory):
                log.clear()
    bench.simulate(runs)
