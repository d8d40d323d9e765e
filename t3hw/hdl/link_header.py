"""What stands before a packet's payload on the link."""

import functools

from amaranth.lib import data

from .seams import EPOCH_WIDTH, Dtype, MemoryOp, plan_width

__all__ = ["LINK_MAGIC", "header_words", "link_header"]

#: First four bits of every packet. A receiver that is out of step sees this with one chance in 16.
LINK_MAGIC = 0b1011


@functools.cache
def link_header(config):
    """A packet's header: all of `t3hw.hdl.seams.remote_beat` that is the same for all its beats.

    ``beat`` is the address of the first beat in units of beats. On the wire the header fills as
    many words as it needs from the lowest bit on, and the rest of the last one is 0. After it come
    1 to ``burst_beats`` words of payload, one a beat, with the strobes as TKEEP; TLAST is on the
    last of them.
    """
    return data.StructLayout({
        "magic": 4,
        "op": MemoryOp,
        "dtype": Dtype,
        "tracked": 1,
        "plan": plan_width(config),
        "epoch": EPOCH_WIDTH,
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "beat": config.addr_width - config.beat_shift,
    })


def header_words(config):
    """Words of a header on the wire."""
    return -(-link_header(config).size // config.data_width)
