"""Writes plan.hex, and plan.h for t3_node_small: what a program without Python loads into a stock
node for one run.

The plan is a reduce-scatter of three devices in relative layout: on one node whose link comes back
to it, it does what a ring of three does. The words are what the runtime would write.

    python fpga/soc/make_plan.py    # for t3_node_small, beside this file
    python fpga/soc/make_plan.py --preset axi --output fpga/litex    # for t3_node_axi
"""

import argparse
from pathlib import Path

from t3hw.config import NodeConfig
from t3hw.registers import entry_address
from t3hw.runtime.device import Device
from t3hw.runtime.functional import FunctionalDevice
from t3hw.runtime.relative_plan import relative_reduce_scatter

DEVICES, CHUNK_TILES, TILE_BYTES, BASE = 3, 4, 64, 0x1000


class Recorder(FunctionalDevice):
    """A node in software that keeps what is written to it."""

    def __init__(self, config):
        super().__init__(config, memory_bytes=1 << 16)
        self.written = []

    def write32(self, address, value):
        """Keep a write, and carry it out."""
        self.written.append((address, value))
        super().write32(address, value)


def words(config):
    """The plan's words, as pairs of address and value, in order; the last one begins a clear."""
    recorder = Recorder(config)
    device = Device(recorder, config=config)
    recorder.written.clear()
    device.program(relative_reduce_scatter(
        devices=DEVICES, chunk_tiles=CHUNK_TILES, tile_bytes=TILE_BYTES, dtype="int32",
        config=config, base=BASE))
    # What comes behind the clear waits for its end.
    clear = [address for address, _ in recorder.written].index(entry_address("PLAN", 0))
    return recorder.written[:clear + 1]


def main():
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
    parser.add_argument("--preset", default="small", choices=["small", "axi"])
    options = parser.parse_args()
    output, config = options.output, NodeConfig.preset(options.preset)
    pairs = words(config)
    (output / "plan.hex").write_text("".join(
        f"{address:05x} {value:08x}\n" for address, value in pairs))
    if options.preset != "small":
        return
    rows = "".join(f"    {{0x{address:05x}, 0x{value:08x}}},\n" for address, value in pairs)
    (output / "plan.h").write_text(f"""\
/* A plan for t3_node_{config.name}, written by make_plan.py: {DEVICES} chunks of \
{CHUNK_TILES} tiles of {TILE_BYTES} bytes, int32. */
#ifndef PLAN_H
#define PLAN_H

#include "t3.h"

#define PLAN_CHUNKS {DEVICES}
#define PLAN_CHUNK_BYTES {CHUNK_TILES * TILE_BYTES}
#define PLAN_BASE 0x{BASE:x}
#define PLAN_CONFIG_HASH 0x{config.hash:08x}u

static const t3_word plan_words[] = {{
{rows}}};

#endif
""")


if __name__ == "__main__":
    main()
