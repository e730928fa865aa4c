"""Whole numbers as people write them: 1000, 1,000, 1_000, 1e3."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import click

MOST = 10**30


class WholeNumber(click.ParamType[int]):
    """A whole number from `least` to `most`."""

    name = "number"

    def __init__(self, least: int = 1, most: int = MOST) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or a usage error that repeats what was given."""
        try:
            number = Decimal(str(value).replace(",", "").replace("_", ""))
        except InvalidOperation:
            number = Decimal("NaN")
        # the exponent is looked at first: 1e999999999 must not be written out
        if not number.is_finite() or number.adjusted() > 30 or number != number.to_integral_value():
            self._refuse(value, param, ctx)
        whole = int(number)
        if not self.least <= whole <= self.most:
            self._refuse(value, param, ctx)
        return whole

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> None:
        most = "1e30" if self.most == MOST else f"{self.most:,}"
        self.fail(f"{value!r} is not a whole number from {self.least} to {most}.", param, ctx)
