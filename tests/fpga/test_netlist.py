"""Checks of netlists find the faults that they are for, and nothing in what is right."""

import json

import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from t3hw.fpga.devices import ECP5_RESOURCES
from t3hw.fpga.measure import synthesize
from t3hw.fpga.netlist_checks import check_netlist, live_resets
from t3hw.fpga.utilisation import OTHER, Overfull, block_of, by_block, check_fit, count

SCOPES = {"core", "core.bridge", "core.node0", "core.node0.tracker", "core.node0.tracker.ways",
          "core.node11", "core.node11.node", "core.node11.node.engine", "core.axil3",
          "core.node2", "core.node2.shared", "core.node2.shared.tracker"}


@pytest.mark.parametrize("cell, block", [
    ("core.node0.tracker.ways.store.0_DO_LUT4_Z", "node*.tracker"),
    ("core.node0.tracker.x", "node*.tracker"),
    ("core.node0.x_LUT4", "node*"),
    ("core.node11.node.engine.x", "node*.node.engine"),
    ("core.node2.shared.tracker.x", "node*.tracker"), ("core.bridge.x", "bridge"),
    ("core.axil3.x", "axil*"),
    ("core.x", OTHER), ("x", OTHER), ("$PACKER_VCC", OTHER),
])
def test_a_cell_belongs_to_the_block_below_a_node(cell, block):
    assert block_of(cell, SCOPES) == block


def netlist(cells):
    cells = cells | {scope: "$scopeinfo" for scope in SCOPES}
    return {"modules": {
        "top": {"attributes": {"top": "1"}, "cells": {
            name: {"type": kind, "connections": {}} for name, kind in cells.items()}},
        "LUT4": {"attributes": {}, "cells": {}}}}


def test_cells_are_counted_by_kind():
    cells = {"core.node0.tracker.a": "LUT4", "core.node0.tracker.b": "CCU2C",
             "core.node0.tracker.c": "DP16KD", "core.bridge.a": "TRELLIS_FF",
             "core.bridge.b": "TRELLIS_DPR16X4", "core.bridge.c": "PFUMX"}
    blocks = by_block(netlist(cells), "ecp5")
    assert blocks == {"bridge": {"FF": 1, "LUT4": 6, "LUT RAM": 1},
                      "node*.tracker": {"LUT4": 3, "block RAM": 1}}
    assert count(blocks) == {"LUT4": 9, "FF": 1, "LUT RAM": 1, "block RAM": 1}
    blocks = by_block(netlist({"core.bridge.a": "SB_DFFESR", "core.bridge.b": "SB_LUT4"}), "ice40")
    assert blocks == {"bridge": {"FF": 1, "LUT4": 1, "logic cell": 2}}


@pytest.mark.parametrize("family, lut, flip_flop, more, wanted", [
    ("ice40", "SB_LUT4", "SB_DFFE", {}, 2),
    # A LUT that others read, too, is none's own on the one, and serves on the other.
    ("ice40", "SB_LUT4", "SB_DFFE", {"core.other.c": ("SB_LUT4", {"O": [4], "I0": [2]})}, 4),
    ("gowin", "LUT4", "DFFRE", {"core.other.c": ("LUT2", {"F": [4], "I0": [2]})}, 3),
    ("gowin", "LUT4", "DFFRE", {"core.other.c": ("RAM16SDP4", {"DO": [4], "WCK": [1]})}, 10),
])
def test_a_flip_flop_has_its_place_behind_a_lut_or_takes_one(family, lut, flip_flop, more, wanted):
    cells = {"core.bridge.lut": (lut, {"O": [2], "I0": [9]}),
             "core.bridge.a": (flip_flop, {"D": [2], "Q": [3], "C": [1]}),
             "core.bridge.b": (flip_flop, {"D": [3], "Q": [9], "C": [1]})} | more
    made = {"modules": {"top": {"attributes": {"top": "1"}, "cells": {
        name: {"type": kind, "connections": ports, "port_directions": {
            port: "output" if port in ("O", "F", "Q", "DO") else "input" for port in ports}}
        for name, (kind, ports) in cells.items()}}}}
    assert count(by_block(made, family))["logic cell"] == wanted


def test_exactly_full_is_accepted_and_one_more_is_refused():
    available = ECP5_RESOURCES["25F"]
    blocks = {"node*.tracker": {"LUT4": 24288, "block RAM": 56}, "bridge": {"FF": 10}}
    check_fit(blocks, available, chip="LFE5U-25F", devices=2)
    blocks["bridge"]["LUT4"] = 1
    with pytest.raises(Overfull) as caught:
        check_fit(blocks, available, chip="LFE5U-25F", devices=2)
    message = str(caught.value)
    assert "LUT4: 24289 of 24288, 1 too many (0 %)" in message and "block RAM" not in message
    assert ("node*.tracker has 24288 (12144 in each of 2); smaller by tracker_ways, tracker_sets, "
            "tiles") in message
    assert "fewer devices than 2" in message


class Store(wiring.Component):
    """A memory whose read port is registered, by the memory or by the logic behind it."""

    address: In(9)
    place: In(9)
    value: In(16)
    clear: In(1)
    enable: In(1)
    out: Out(16)

    def __init__(self, *, sync):
        self._sync = sync
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = Memory(shape=16, depth=512, init=[])
        write = store.write_port()
        read = store.read_port(domain="sync" if self._sync else "comb")
        shown = Signal(16)
        m.d.comb += [write.addr.eq(self.address), write.data.eq(self.value),
                     write.en.eq(self.enable), read.addr.eq(self.place), self.out.eq(shown)]
        if self._sync:
            m.d.comb += [read.en.eq(1), shown.eq(read.data)]
        else:
            m.d.sync += shown.eq(read.data)
            with m.If(self.clear):
                m.d.sync += shown.eq(0)
        return m


@pytest.mark.parametrize("sync, faults", [(True, 0), (False, 1)])
def test_a_read_port_that_logic_resets_is_found(tmp_path, sync, faults):
    cells = synthesize(Store(sync=sync), tmp_path)
    assert cells["DP16KD"] == 1
    made = json.loads((tmp_path / "top.json").read_text())
    assert len(live_resets(made)) == faults
    problems = check_netlist(made, family="ecp5", declared_ff=1000, used_ff=100,
                             memory_bits=512 * 16, block_ram_bits=1 << 14)
    assert len(problems) == faults and all("can read 0" in problem for problem in problems)


@pytest.mark.parametrize("family, used_ff, block_ram_bits, problem", [
    ("ecp5", 1100, 4096, None), ("ecp5", 1101, 4096, "1101 flip-flops where"),
    ("ice40", 9999, 4096, None), ("ecp5", 1000, 4095, "less than the 4096"),
])
def test_a_memory_that_became_flip_flops_is_found(family, used_ff, block_ram_bits, problem):
    problems = check_netlist({"modules": {}}, family=family, declared_ff=1000, used_ff=used_ff,
                             memory_bits=4096, block_ram_bits=block_ram_bits)
    assert len(problems) == (problem is not None)
    assert not problem or problem in problems[0]
