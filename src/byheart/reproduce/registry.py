"""The figures by name. Specifications need torch and numpy alone; what computes and draws is imported when asked for."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from byheart.errors import UsageError
from byheart.reproduce.figure import Figure, Scale, Stage
from byheart.reproduce.samples import Samples

# In the order of their worth when time is short.
FIGURES = {
    "dana-2024-fig1a": "dana_2024.fig1a",
    "dana-2024-fig2b": "dana_2024.fig2b",
    "dana-2024-fig1b": "dana_2024.fig1b",
    "dana-2024-fig2a": "dana_2024.fig2a",
    "dana-2024-fig3": "dana_2024.fig3",
    "dana-2024-fig4": "dana_2024.fig4",
    "madden-2024-fig1-left": "madden_2024.fig1_left",
    "madden-2024-fig1-right": "madden_2024.fig1_right",
    "kajitsuka-sato-2025-fig1": "kajitsuka_sato_2025.fig1",
    "kajitsuka-sato-2025-fig2": "kajitsuka_sato_2025.fig2",
    "kajitsuka-sato-2025-fig3": "kajitsuka_sato_2025.fig3",
    "kajitsuka-sato-2025-length": "kajitsuka_sato_2025.length",
    "beyond-bits": "beyond_bits",
    "beyond-capacity": "beyond_capacity",
}


def figure_of(name: str) -> Figure:
    """The figure of that name; a `UsageError` lists those there are."""
    figure = _module(name).FIGURE
    assert isinstance(figure, Figure)
    return figure


def stages_by_name(name: str) -> Callable[[Scale, Samples | None], list[Stage]]:
    """What a figure trains."""
    stages: Callable[[Scale, Samples | None], list[Stage]] = _module(name).stages
    return stages


def _module(name: str) -> Any:
    if name not in FIGURES:
        close = difflib.get_close_matches(name, FIGURES, 1)
        hint = f" Did you mean `{close[0]}`?" if close else ""
        raise UsageError(f"there is no figure `{name}`.{hint}\n  Figures: {', '.join(FIGURES)}.", figure=name)
    return import_module(f"byheart.reproduce.{FIGURES[name]}")
