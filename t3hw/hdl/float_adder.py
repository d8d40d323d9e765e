"""Floating-point adder, IEEE 754, pipelined; also several formats in one adder."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

__all__ = ["FloatAdder", "float_layout"]


def float_layout(exponent, mantissa):
    """The fields of a binary interchange format; as bits it is the number as IEEE 754 stores it."""
    return data.StructLayout({"mantissa": mantissa, "exponent": exponent, "sign": 1})


class FloatAdder(wiring.Component):
    """``a + b`` in a binary floating-point format, rounded to nearest, ties to even.

    Subnormals count in and out, there are infinities, x + (-x) is +0 and (-0) + (-0) is -0. Every
    NaN that comes out is the one quiet NaN with sign 0 and only the top bit of the mantissa set, so
    that results do not depend on which operand was a NaN, nor on the order of the operands.

    Several formats can share an adder as wide as the widest of them, as the exponent's bias cancels
    out: the exponent stands in the low bits of its field (zeros above), the mantissa in the high
    bits of its own. Mantissa bits below those of the format are ignored in operands and mean
    nothing in the result.

    Latency `latency` cycles in which ``enable`` is high; throughput one addition in each of them.
    Nothing is registered before the first stage and after the last: the comparison of the operands
    starts at the inputs, and the rounding ends at ``o``. Put a register at both sides.

    Parameters
    ----------
    exponent : int
        Bits of the exponent's field, at least 2.
    mantissa : int
        Bits of the mantissa's field, at least 1.
    formats : sequence of (int, int)
        Bits of exponent and mantissa of each format, at most those of the fields. Left out: the one
        that fills the fields.

    Attributes
    ----------
    latency : int
        Enabled cycles from operands to result.

    Members
    -------
    enable : In(1)
        The whole pipeline stands still while this is 0.
    a, b : In(float_layout(exponent, mantissa))
        Operands.
    format : In(range(len(formats)))
        Which of ``formats`` the operands have, and the result; not there if there is one only.
    keep : In(1)
        The result is ``b`` bit for bit, a NaN's payload included, whatever ``a`` is.
    o : Out(float_layout(exponent, mantissa))
        Result.

    Raises
    ------
    ValueError
        If a width is out of range.
    """

    latency = 5

    def __init__(self, *, exponent, mantissa, formats=None):
        for name, value, least in (("exponent", exponent, 2), ("mantissa", mantissa, 1)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
        formats = [(exponent, mantissa)] if formats is None else list(formats)
        if not formats:
            raise ValueError(f"formats must be one or more pairs, not {formats!r}")
        for pair in formats:
            if not 2 <= pair[0] <= exponent or not 1 <= pair[1] <= mantissa:
                raise ValueError(f"a format must have 2 to {exponent} bits of exponent and 1 to "
                                 f"{mantissa} bits of mantissa, not {pair!r}")
        self._exponent = exponent
        self._mantissa = mantissa
        self._formats = formats
        layout = float_layout(exponent, mantissa)
        # A port of no bits is none that every tool takes.
        choice = {"format": In(range(len(formats)))} if len(formats) > 1 else {}
        super().__init__({
            "enable": In(1),
            "a": In(layout),
            "b": In(layout),
            **choice,
            "keep": In(1),
            "o": Out(layout),
        })

    def elaborate(self, platform):
        m = Module()
        mantissa = self._mantissa
        formats = self._formats
        # A sum before rounding: carry, hidden bit, mantissa, and two bits more than it, so that
        # after a subtraction that needs a left shift by one there still is a bit to round by. What
        # is lost below is one sticky bit.
        sum_width = mantissa + 4
        shift_width = bits_for(sum_width - 1)

        def register(name, value):
            """``value`` one enabled cycle later."""
            if not len(value):
                return value
            signal = Signal(value.shape(), name=name, reset_less=True)
            with m.If(self.enable):
                m.d.sync += signal.eq(value)
            return signal

        def wire(name, value):
            signal = Signal(value.shape(), name=name)
            m.d.comb += signal.eq(value)
            return signal

        def is_format(number, index):
            return C(1, 1) if len(formats) == 1 else number == index

        def any_of(values):
            result = C(0, 1)
            for value in values:
                result = result | value
            return result

        def is_special(exponent, number, below=0):
            """Whether it is the exponent of infinities and NaNs, or that many below it."""
            return any_of(is_format(number, index) & (exponent[:width] == (1 << width) - 1 - below)
                          for index, (width, _) in enumerate(formats))

        format_ = self.format if len(formats) > 1 else C(0, 0)

        # Stage 1: the operand of larger magnitude becomes `big`, so the difference is never
        # negative and only `small` needs aligning. Ignored mantissa bits may decide only between
        # equals. With an infinity, a NaN or `keep` the small one counts as nothing: `big` then runs
        # through all stages unchanged, because a lone operand needs no rounding. Comparing by `<`,
        # as that is one carry chain; Yosys builds `>` from it and a test for equality.
        a, b = self.a, self.b
        live = Cat(any_of(is_format(format_, index) for index, (_, width) in enumerate(formats)
                          if bit >= mantissa - width) for bit in range(mantissa))
        swap = wire("swap", self.keep
                    | (Cat(a.mantissa, a.exponent) < Cat(b.mantissa, b.exponent)))
        special_a = wire("special_a", is_special(a.exponent, format_))
        special_b = wire("special_b", is_special(b.exponent, format_))
        drop = wire("drop", self.keep | special_a | special_b)
        normal_a = wire("normal_a", a.exponent.any())
        normal_b = wire("normal_b", b.exponent.any())
        subtract = wire("subtract", (a.sign ^ b.sign) & ~self.keep)
        exponent_big = wire("exponent_big", Mux(swap, b.exponent, a.exponent))
        normal_big = wire("normal_big", Mux(swap, normal_b, normal_a))

        big_1 = register("big_1", Cat(Mux(swap, b.mantissa, a.mantissa) & live, normal_big))
        small_1 = register("small_1", Cat(
            Mux(swap, a.mantissa, b.mantissa) & live & ~drop.replicate(mantissa),
            Mux(swap, normal_a, normal_b) & ~drop))
        # The exponents 0 and 1 have the same weight: one less if just one of the two is 0. That is
        # a bit below both, which borrows; a third operand would cost another adder. Both
        # differences are made, so that no carry chain follows that of the comparison.
        def distance(name, large, small):
            difference = Cat(C(0, 1), large) - Cat(normal_a ^ normal_b, small)
            return wire(name, difference[1:1 + self._exponent])

        distance_1 = register("distance_1", Mux(
            swap, distance("distance_b", b.exponent, a.exponent),
            distance("distance_a", a.exponent, b.exponent)))
        exponent_1 = register("exponent_1", exponent_big | ~normal_big)
        subtract_1 = register("subtract_1", subtract)
        sign_1 = register("sign_1", Mux(swap, b.sign, a.sign))
        special_1 = register("special_1", (special_a | special_b) & ~self.keep)
        opposite_infinities_1 = register("opposite_infinities_1", special_a & special_b & subtract)
        keep_1 = register("keep_1", self.keep)
        format_1 = register("format_1", format_)

        # Stage 2: align `small`, complement it to subtract. The low two bits are below the
        # mantissa. From far below it is nothing: not even a quarter of the last place, also of the
        # next lower exponent's, so the result rounds to `big`.
        far = wire("far", distance_1[shift_width:].any())
        aligned = Cat(C(0, 2), small_1 & ~far.replicate(mantissa + 1))
        sticky = C(0, 1)
        for level in reversed(range(min(shift_width, self._exponent))):
            take = distance_1[level]
            sticky = sticky | (take & aligned[:1 << level].any())
            aligned = wire(f"aligned_{level}", Mux(take, aligned >> (1 << level), aligned))
        sticky = wire("sticky", sticky)

        big_2 = register("big_2", big_1)
        small_2 = register("small_2", aligned ^ subtract_1.replicate(mantissa + 3))
        # To subtract what is below the last bit, too, borrow one there.
        carry_2 = register("carry_2", subtract_1 & ~sticky)
        sticky_2 = register("sticky_2", sticky)
        exponent_2 = register("exponent_2", exponent_1)
        subtract_2 = register("subtract_2", subtract_1)
        sign_2 = register("sign_2", sign_1)
        nan_2 = register("nan_2", (special_1 & big_1[:mantissa].any()) | opposite_infinities_1)
        keep_2 = register("keep_2", keep_1)
        format_2 = register("format_2", format_1)

        # Stage 3: add. The sum is then shifted left until its top bit is 1, or the exponent is at
        # its lowest, whichever comes first: by the binary digits of the distance, the largest
        # first. A digit is taken if that many top bits are 0 and the exponent allows it. `free`
        # says that the exponent has been found to be larger than anything that could still be
        # taken.
        total = wire("total", Cat(C(1, 1), C(0, 2), big_2) + Cat(carry_2, small_2))

        def normalise(value, exponent, free, level):
            """One digit's decision: whether to shift, and the next `free`."""
            empty = ~value[-1 << level:].any()
            allowed = exponent[level] if level < self._exponent else C(0, 1)
            return empty & (free | allowed), free | (allowed & ~empty)

        def shift(value, take, level):
            amount = 1 << level
            return Mux(take, Cat(C(0, amount), value[:-amount]), value)

        sum_ = wire("sum", Cat(total[1:-1], total[-1] & ~subtract_2))
        take, free = normalise(
            sum_, exponent_2, exponent_2[shift_width:].any(), shift_width - 1)

        sum_3 = register("sum_3", sum_)
        take_3 = register("take_3", take)
        free_3 = register("free_3", free)
        sticky_3 = register("sticky_3", sticky_2)
        exponent_3 = register("exponent_3", exponent_2)
        subtract_3 = register("subtract_3", subtract_2)
        sign_3 = register("sign_3", sign_2)
        nan_3 = register("nan_3", nan_2)
        keep_3 = register("keep_3", keep_2)
        format_3 = register("format_3", format_2)

        # Stage 4: the large digits of the left shift.
        small_levels = 2
        value, free, taken = shift(sum_3, take_3, shift_width - 1), free_3, [take_3]
        for level in reversed(range(small_levels, shift_width - 1)):
            value = wire(f"normal_{level + 1}", value)
            take, free = normalise(value, exponent_3, free, level)
            take = wire(f"take_{level}", take)
            taken.append(take)
            value = shift(value, take, level)

        sum_4 = register("sum_4", value)
        free_4 = register("free_4", free)
        taken_4 = register("taken_4", Cat(reversed(taken)))
        sticky_4 = register("sticky_4", sticky_3)
        exponent_4 = register("exponent_4", exponent_3)
        # Only a difference of equals is 0 with another sign than the larger operand's.
        sign_4 = register("sign_4", sign_3 & ~(subtract_3 & ~sum_3.any()))
        nan_4 = register("nan_4", nan_3)
        keep_4 = register("keep_4", keep_3)
        format_4 = register("format_4", format_3)

        # Stage 5: the last two digits, and whether to round up. The hidden bit will be added to the
        # exponent, so the exponent is one less than it will be: 0 for a subnormal number, where the
        # shift ended because it used up the exponent, and made 0 for the sum 0.
        value, free, taken = sum_4, free_4, [taken_4]
        for level in reversed(range(small_levels)):
            take, free = normalise(value, exponent_4, free, level)
            take = wire(f"take_{level}", take)
            taken.append(take)
            value = wire(f"normal_{level}", shift(value, take, level))
        hidden = value[-1]
        # One expression: Verilog runs no process for bits that are always 0, and they would be X.
        ups = [C(0, 1)] * mantissa
        for index, (_, width) in enumerate(formats):
            last = 3 + mantissa - width
            below = value[:last - 1].any() | sticky_4
            ups[last - 3] |= is_format(format_4, index) & value[last - 1] & (value[last] | below)
        up = wire("up", Cat(ups))

        mantissa_5 = register("mantissa_5", value[3:-1])
        hidden_5 = register("hidden_5", hidden)
        up_5 = register("up_5", up)
        exponent_5 = register("exponent_5", Mux(
            hidden, (exponent_4 - Cat(reversed(taken)))[:self._exponent], 0))
        sign_5 = register("sign_5", sign_4)
        nan_5 = register("nan_5", nan_4)
        keep_5 = register("keep_5", keep_4)
        format_5 = register("format_5", format_4)

        # Behind the last register: round; a carry out of the mantissa belongs to the exponent. A
        # carry that makes the exponent infinity's has left a mantissa of 0. Where it is infinity's
        # without one, the mantissa is made 0, and no carry follows: twice the largest number has a
        # 0 below its mantissa.
        rounded = wire("rounded", (Cat(mantissa_5, exponent_5) + Cat(up_5, hidden_5))[:-1])
        infinite = wire("infinite", is_special(exponent_5, format_5, below=1) & ~keep_5)
        m.d.comb += [
            self.o.exponent.eq(rounded[mantissa:]),
            self.o.mantissa.eq(Mux(infinite, Cat(C(0, mantissa - 1), nan_5), rounded[:mantissa])),
            self.o.sign.eq(sign_5 & ~nan_5),
        ]

        return m
