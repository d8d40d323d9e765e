"""Writes plan.hex and plan.h: what a program without Python loads into t3_node_small for one run.

The plan is a reduce-scatter of three devices in relative layout: on one node whose link comes back to it,
it does what a ring of three does. The words are what the runtime would write.

    python fpga/soc/make_plan.py            # beside this file
"""

import argparse
from pathlib import Path

from t3hw.config import NodeConfig
from t3hw.registers.map import REGISTERS, register_address
from t3hw.runtime.device import Device
from t3hw.runtime.relative_plan import relative_reduce_scatter
from t3hw.runtime.transport import Transport

DEVICES, CHUNK_TILES, TILE_BYTES, BASE = 3, 4, 64, 0x1000
CONFIG = NodeConfig.preset("small")


class Recorder(Transport):
    """A node that is never busy; it keeps what is written to it."""

    def __init__(self):
        self.written = []

    def read32(self, address):
        """A register's constant, or 0: no plan runs."""
        if address == register_address("CONFIG_HASH"):
            return CONFIG.hash
        return next((register.reset for register in REGISTERS.values()
                     if register.offset == address and register.reset is not None), 0)

    def write32(self, address, value):
        """Keep a write."""
        self.written.append((address, value))

    def wait_interrupt(self, cycles):
        """There is none."""
        return False


def words():
    """The plan's words, as pairs of address and value, in order; the last one begins a clear."""
    recorder = Recorder()
    device = Device(recorder, config=CONFIG)
    recorder.written.clear()
    device.program(relative_reduce_scatter(
        devices=DEVICES, chunk_tiles=CHUNK_TILES, tile_bytes=TILE_BYTES, dtype="int32",
        config=CONFIG, base=BASE))
    return recorder.written


def main():
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
    output = parser.parse_args().output
    pairs = words()
    (output / "plan.hex").write_text("".join(
        f"{address:08x}{value:08x}\n" for address, value in pairs))
    rows = "".join(f"    {{0x{address:05x}, 0x{value:08x}}},\n" for address, value in pairs)
    (output / "plan.h").write_text(f"""\
/* A plan for t3_node_small, written by make_plan.py: {DEVICES} chunks of {CHUNK_TILES} tiles of {TILE_BYTES} bytes, int32. */
#ifndef PLAN_H
#define PLAN_H

#include "t3.h"

#define PLAN_CHUNKS {DEVICES}
#define PLAN_CHUNK_BYTES {CHUNK_TILES * TILE_BYTES}
#define PLAN_BASE 0x{BASE:x}
#define PLAN_CONFIG_HASH 0x{CONFIG.hash:08x}u

static const t3_word plan_words[] = {{
{rows}}};

#endif
""")


if __name__ == "__main__":
    main()
