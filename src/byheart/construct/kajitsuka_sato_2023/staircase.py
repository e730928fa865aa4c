"""From a number near a whole number to that whole number, exactly, in floats: ReLUs nested so that both ends are flat."""

from __future__ import annotations

from byheart.program.blocks import Block, Blocks, Unit, clear


def round_to_whole(number: str, into: str, helper: str, n_bits: int) -> Blocks:
    """Add to `into` the whole number below 2^n_bits that lies within 1/4 of `number`; `number` is used up.

    Assumes:    `helper` is zero, `into` a whole number.
    Guarantee:  exact in any floating-point type that holds 2^(n_bits + 2), in any order of summation: for
                each bit, from the top, ReLU(1 - ReLU(4·2^k - 1 - 4·number)) is exactly 1 above 2^k - 1/4 and
                exactly 0 below 2^k - 1/2, for the inner ReLU is exactly 0 or at least 1 there.
    Size:       2 blocks a bit, of one and two units.
    """
    steps = []
    for bit in reversed(range(n_bits)):
        worth = 1 << bit
        steps.append(Block((Unit({number: -4}, 4 * worth - 1, {helper: 1}),)))
        is_set = Unit({helper: -1}, 1, {number: -worth, into: worth})
        steps.append(Block((is_set, *clear(helper))))
    return tuple(steps)
