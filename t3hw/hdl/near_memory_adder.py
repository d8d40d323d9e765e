"""Near-memory compute: adds a beat to what memory holds, element by element."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from t3hw.config import DTYPE_NAMES
from t3hw.hdl.float_adder import FloatAdder, float_layout
from t3hw.hdl.seams import Dtype

__all__ = ["NearMemoryAdder"]

#: Bits of exponent and mantissa of the floating-point dtypes.
_FORMATS = {"float32": (8, 23), "bfloat16": (8, 7), "float16": (5, 10)}


def _dtype(name):
    return Dtype(DTYPE_NAMES.index(name))


class NearMemoryAdder(wiring.Component):
    """``old + new`` in the lanes whose ``add`` bit is set, ``new`` bit for bit in the others.

    int32 wraps; float32, bfloat16 and float16 are rounded to nearest, ties to even, with
    subnormals, and every NaN that an addition gives is the canonical one (0x7FC00000, 0x7FC0,
    0x7E00). A sum of a dtype that is not in ``config.dtypes`` is undefined; lanes that do not add
    pass for every dtype.

    Latency `latency` cycles, the same for every dtype; throughput one beat a cycle. The pipeline
    stands still in those cycles, and only in those, in which its last beat waits for ``o.ready``:
    bubbles are not closed. ``i.ready`` is a gate away from ``o.ready``. Both ends are registered:
    before its first register an operand meets nothing but the choice by dtype and the int32
    addition.

    A lane's adder takes all the 16-bit formats. float32, where it is built, adds no third adder to
    a pair of lanes but widens the upper lane's; an int32 sum goes through it as a number to keep.

    Parameters
    ----------
    config : NodeConfig
        Width of the beat, and the dtypes to build.
    meta : shape-like
        Whatever shall travel with a beat.

    Attributes
    ----------
    latency : int
        Cycles from a transfer on ``i`` to its result on ``o``, if nothing stalls.

    Members
    -------
    i : stream of {dtype, add, old, new, meta}
        ``dtype`` is a `Dtype`, ``add`` has a bit per 16-bit lane; those of one 32-bit element are
        equal.
    o : stream of {data, meta}
        Results, in order.
    """

    def __init__(self, *, config, meta):
        self._config = config
        wide = [name for name in config.dtypes if name == "float32"]
        narrow = [name for name in config.dtypes if name in ("bfloat16", "float16")]
        #: What the adders of a word's lower and upper lane add; no adder if that is nothing.
        self._lane_dtypes = (narrow, wide + narrow)
        self.latency = FloatAdder.latency + 2 if wide + narrow else 1
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "dtype": Dtype,
                "add": config.lanes,
                "old": config.data_width,
                "new": config.data_width,
                "meta": meta,
            }))),
            "o": Out(stream.Signature(data.StructLayout({
                "data": config.data_width,
                "meta": meta,
            }))),
        })

    def elaborate(self, platform):
        m = Module()

        advance = Signal()
        m.d.comb += [
            advance.eq(self.o.ready | ~self.o.valid),
            self.i.ready.eq(advance),
        ]

        # What goes beside the adders: a register a stage, the last of them the output's.
        beside = data.StructLayout({"dtype": Dtype, "meta": self.i.p.shape()["meta"].shape})
        valid, info = [self.i.valid], [Signal(beside)]
        m.d.comb += info[0].eq(Cat(self.i.p.dtype, self.i.p.meta))
        for stage in range(1, self.latency):
            valid.append(Signal(name=f"valid_{stage}"))
            info.append(Signal(beside, name=f"info_{stage}", reset_less=True))
            with m.If(advance):
                m.d.sync += [valid[stage].eq(valid[stage - 1]), info[stage].eq(info[stage - 1])]
        result = Signal(self.o.p.shape(), reset_less=True)
        m.d.comb += self.o.p.eq(result)
        with m.If(advance):
            m.d.sync += [self.o.valid.eq(valid[-1]), result.meta.eq(info[-1].meta)]

        integer = Signal()
        if "int32" in self._config.dtypes:
            m.d.comb += integer.eq(self.i.p.dtype == Dtype.INT32)
        for word in range(self._config.data_width // 32):
            part = slice(32 * word, 32 * word + 32)
            old, new, add = self.i.p.old[part], self.i.p.new[part], self.i.p.add[2 * word:][:2]
            if "int32" in self._config.dtypes:
                new = Mux(integer & add[0], (old + new)[:32], new)
            if any(self._lane_dtypes):
                new = self._add_floats(
                    m, word, advance, old=old, new=new, keep=~add | integer.replicate(2),
                    dtypes=(info[0].dtype, info[1].dtype, info[-1].dtype))
            with m.If(advance):
                m.d.sync += result.data[part].eq(new)
        return m

    def _add_floats(self, m, word, advance, *, old, new, keep, dtypes):
        """The adders of one word, from their operand registers to the bits for the output's.

        ``dtypes`` are those of the beats before the operand registers, behind them, and at the end.
        """
        results = {}
        for lane, names in enumerate(self._lane_dtypes):
            if not names:
                continue
            formats = [_FORMATS[name] for name in names]
            adder = FloatAdder(exponent=max(exponent for exponent, _ in formats),
                               mantissa=max(mantissa for _, mantissa in formats), formats=formats)
            m.submodules[f"adder_{word}_{lane}"] = adder
            operands = [Signal.like(adder.a, name=f"{name}_{word}_{lane}", reset_less=True)
                        for name in ("old", "new")]
            kept = Signal(name=f"keep_{word}_{lane}", reset_less=True)
            with m.If(advance):
                m.d.sync += kept.eq(keep[lane])
                for operand, bits in zip(operands, (old, new)):
                    m.d.sync += operand.eq(_choose(dtypes[0], names, [
                        _widen(_element(bits, lane, name), adder.a.shape(), name)
                        for name in names]))
            m.d.comb += [
                adder.enable.eq(advance),
                adder.a.eq(operands[0]),
                adder.b.eq(operands[1]),
                adder.keep.eq(kept),
            ]
            if len(names) > 1:
                m.d.comb += adder.format.eq(_choose(dtypes[1], names, range(len(names))))
            for name in names:
                results[name, lane] = _narrow(adder.o, name)
        names = self._lane_dtypes[1]
        return _choose(dtypes[2], names, [
            results[name, 1] if name == "float32" else Cat(results[name, 0], results[name, 1])
            for name in names])


def _choose(dtype, names, values):
    """The value of the dtype among ``names``; the first one for all others, int32 too."""
    result = values[0]
    for name, value in list(zip(names, values))[1:]:
        result = Mux(dtype == _dtype(name), value, result)
    return result


def _element(word, lane, name):
    return word if name == "float32" else word[16 * lane:][:16]


def _widen(bits, layout, name):
    """A number in the fields of a format at least as wide, as `FloatAdder` wants it."""
    exponent, mantissa = _FORMATS[name]
    number = data.View(float_layout(exponent, mantissa), bits)
    return Cat(C(0, layout["mantissa"].width - mantissa), number.mantissa,
               number.exponent, C(0, layout["exponent"].width - exponent), number.sign)


def _narrow(number, name):
    """The way back of `_widen`."""
    exponent, mantissa = _FORMATS[name]
    return Cat(number.mantissa[len(number.mantissa) - mantissa:], number.exponent[:exponent],
               number.sign)
