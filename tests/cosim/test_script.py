"""Scripts say the same after a round trip, and bursts that AXI4 forbids are refused."""

import dataclasses
import random

import pytest

from t3hw.cosim.script import Burst, read_bursts, read_script, write_bursts, write_script


def random_burst(rng, beat_bytes):
    beats = rng.choice([1, 2, 3, 16, 256]) if beat_bytes <= 16 else rng.randint(1, 16)
    page_beats = 4096 // beat_bytes
    address = (rng.getrandbits(40) << 12) + rng.randint(0, page_beats - beats) * beat_bytes
    fields = dict(address=address, wg=rng.getrandbits(16), wf=rng.getrandbits(4),
                  gap=rng.getrandbits(32), beat_gap=rng.getrandbits(16),
                  fence=rng.random() < 0.5, keep=rng.random() < 0.5, id=rng.getrandbits(16))
    if rng.random() < 0.3:
        return Burst(beats=beats, **fields)
    size = beats * beat_bytes
    strobes = None if rng.random() < 0.3 else bytes(rng.choices((0, 1), k=size))
    return Burst(data=rng.randbytes(size), strobes=strobes, **fields)


@pytest.mark.parametrize("beat_bytes", [4, 8, 16, 32, 64])
def test_round_trip(tmp_path, beat_bytes):
    rng = random.Random(beat_bytes)
    bursts = [random_burst(rng, beat_bytes) for _ in range(100)]
    write_script(tmp_path / "script", bursts, beat_bytes=beat_bytes)
    again = read_script(tmp_path / "script")
    # A script does not keep how a full strobe was said.
    assert again == [dataclasses.replace(burst, strobes=None)
                     if burst.strobes and all(burst.strobes) else burst for burst in bursts]
    assert list(tmp_path.iterdir()) == [tmp_path / "script"]


@pytest.mark.parametrize("beat_bytes", [4, 64])
def test_written_bursts_cover_each_byte_once_and_stay_in_their_page(beat_bytes):
    for start in (0, 1, beat_bytes - 1, 4096 - beat_bytes, 4095, 4096 + 3):
        for length in (0, 1, 2, beat_bytes, beat_bytes + 1, 4095, 4096, 8192, 8195):
            data = random.Random(f"{start} {length}").randbytes(length)
            bursts = write_bursts(start, data, beat_bytes=beat_bytes, wg=7)
            written = {}
            for burst in bursts:
                assert burst.wg == 7 and burst.address % beat_bytes == 0
                assert burst.address // 4096 == (burst.address + len(burst.data) - 1) // 4096
                for index, byte in enumerate(burst.data):
                    if burst.strobes is None or burst.strobes[index]:
                        assert burst.address + index not in written
                        written[burst.address + index] = byte
            assert written == {start + index: byte for index, byte in enumerate(data)}


def test_read_bursts_cover_the_range_with_the_fewest_beats():
    for start, length, beats in ((0, 1, 1), (0, 0, 0), (7, 2, 2), (8, 8, 1), (4090, 4108, 514)):
        bursts = read_bursts(start, length, beat_bytes=8)
        assert sum(burst.beats for burst in bursts) == beats
        assert all(burst.address // 4096 == (burst.address + 8 * burst.beats - 1) // 4096
                   for burst in bursts)


@pytest.mark.parametrize("burst, message", [
    (Burst(address=0, data=b""), "1 to 256 beats, not 0"),
    (Burst(address=0, beats=257), "1 to 256 beats, not 257"),
    (Burst(address=0, data=b"12345"), "not 5 bytes"),
    (Burst(address=0xFF8, beats=2), "crosses a 4 KiB border"),
])
def test_bad_bursts_are_refused(tmp_path, burst, message):
    with pytest.raises(ValueError, match=message):
        write_script(tmp_path / "script", [burst], beat_bytes=8)
    assert not (tmp_path / "script").exists()


@pytest.mark.parametrize("options", [{"stall": 1.0}, {"response_stall": -0.1},
                                     {"outstanding_writes": 0}, {"outstanding_reads": 256}])
def test_bad_options_are_refused_with_their_value(tmp_path, options):
    (name, value), = options.items()
    with pytest.raises(ValueError, match=f"{name} .* not {value!r}"):
        write_script(tmp_path / "script", [], beat_bytes=8, **options)


def test_something_else_is_no_script(tmp_path):
    (tmp_path / "script").write_bytes(bytes(100))
    with pytest.raises(ValueError, match="is no script"):
        read_script(tmp_path / "script")
