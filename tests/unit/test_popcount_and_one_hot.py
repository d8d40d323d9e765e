"""Counts of bits, and what masks choose: plain Python's values, and trees that are not chains."""

import random

import pytest
from amaranth import Cat, Const, Module, Signal, signed
from amaranth.hdl import Value
from amaranth.sim import Simulator

from t3hw.hdl.one_hot import any_of, chosen_of, index_of
from t3hw.hdl.popcount import popcount

WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 64]


def evaluate(results, stimuli):
    """For each stimulus, which has values by signal, those of the combinational ``results``."""
    m = Module()
    outputs = []
    for number, result in enumerate(results):
        outputs.append(Signal(Value.cast(result).shape(), name=f"result_{number}"))
        m.d.comb += outputs[-1].eq(result)
    seen = []

    async def bench(ctx):
        for stimulus in stimuli:
            for signal, value in stimulus:
                ctx.set(signal, value)
            seen.append([ctx.get(output) for output in outputs])
            await ctx.delay(1e-9)

    # There is nothing to clock.
    sim = Simulator(m)
    sim.add_testbench(bench)
    sim.run()
    return seen


def depth(value, operator):
    """How many of these operators lie one behind the other."""
    parts = [*getattr(value, "operands", ()), *getattr(value, "parts", ())]
    parts += [value.value] if isinstance(getattr(value, "value", None), Value) else []
    return max((depth(part, operator) for part in parts), default=0) + (
        getattr(value, "operator", None) == operator)


def words_of(rng, width, count):
    """Random words of ``width`` bits, edges among them."""
    edges = [0, (1 << width) - 1, *(1 << bit for bit in range(width))]
    return edges + [rng.randrange(1 << width) for _ in range(count)]


@pytest.mark.parametrize("width", WIDTHS)
def test_popcount_is_the_number_of_ones(width):
    rng = random.Random(width)
    words = range(1 << width) if width < 9 else words_of(rng, width, 200)
    value = Signal(width)
    count = popcount(value)
    assert evaluate([count], [[(value, word)] for word in words]) == [
        [word.bit_count()] for word in words]
    assert len(count) >= width.bit_length()


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_popcount_of_signed_values_and_of_parts(width):
    value = Signal(signed(width))
    words = range(-(1 << width - 1), 1 << width - 1)
    assert evaluate([popcount(value), popcount(Cat(value, value))],
                    [[(value, word)] for word in words]) == [
        [ones, 2 * ones] for word in words for ones in [(word % (1 << width)).bit_count()]]


def test_popcount_of_no_bits_is_none():
    assert evaluate([popcount(Const(0, 0))], [[]]) == [[0]]


@pytest.mark.parametrize("width", WIDTHS)
def test_popcount_is_a_tree(width):
    assert depth(popcount(Signal(width)), "+") == (width - 1).bit_length()


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 13])
def test_any_of_and_chosen_of(number):
    """No mask, each single bit, and several."""
    rng = random.Random(number)
    mask = Signal(number)
    words = [Signal(9, name=f"word_{at}") for at in range(number)]
    stimuli = [(bits, [rng.randrange(1 << 9) for _ in words])
               for bits in words_of(rng, number, 100)]
    seen = evaluate([any_of(words), chosen_of(mask, words), any_of(iter(words))],
                    [[(mask, bits), *zip(words, values)] for bits, values in stimuli])
    for (bits, values), found in zip(stimuli, seen):
        every = chosen = 0
        for at, value in enumerate(values):
            every |= value
            chosen |= value if bits >> at & 1 else 0
        assert found == [every, chosen, every]


def test_chosen_of_takes_masks_of_signals_and_words_of_several_widths():
    """As the scheduler has them: a list of conditions, and constants beside signals."""
    bits = [Signal(name=f"bit_{at}") for at in range(3)]
    word = Signal(4)
    stimuli = [[*zip(bits, [mask >> at & 1 for at in range(3)]), (word, 0xA)] for mask in range(8)]
    assert evaluate([chosen_of(bits, [word, Const(0x11, 5), 0x40])], stimuli) == [
        [(mask & 1) * 0xA | (mask >> 1 & 1) * 0x11 | (mask >> 2) * 0x40] for mask in range(8)]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 13, 64])
def test_any_of_and_chosen_of_are_trees(number):
    words = [Signal(4) for _ in range(number)]
    assert depth(any_of(words), "|") == (number - 1).bit_length()
    assert depth(chosen_of(Signal(number), words), "|") == (number - 1).bit_length()


def test_a_mask_needs_a_word_for_each_bit():
    with pytest.raises(ValueError, match="shorter"):
        chosen_of(Signal(3), [Signal(4), Signal(4)])


@pytest.mark.parametrize("width", WIDTHS)
def test_index_of_is_the_number_of_the_bit(width):
    mask = Signal(width)
    assert evaluate([index_of(mask)], [[(mask, bits)] for bits in
                                       [0, *(1 << at for at in range(width))]]) == [
        [0], *([at] for at in range(width))]
    assert len(index_of(mask)) == (width - 1).bit_length()
