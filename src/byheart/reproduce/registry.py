"""Find a figure by its name.

The specifications of figures need only torch and numpy. Other packages, such as matplotlib, are imported when a figure is computed
or drawn.
"""

from __future__ import annotations

from importlib import import_module

from byheart.errors import UsageError, did_you_mean
from byheart.reproduce.figure import Figure

# Each module has a tuple FIGURES. Figures are listed by importance, so that the most important come first if time is short.
FIGURES = {
    "dana-2024-fig1a": "dana_2024.size_sweeps",
    "dana-2024-fig2b": "dana_2024.slope_law",
    "dana-2024-fig1b": "dana_2024.size_sweeps",
    "dana-2024-fig2a": "dana_2024.size_sweeps",
    "dana-2024-fig3": "dana_2024.mlp_comparison",
    "dana-2024-fig4": "dana_2024.size_sweeps",
    "madden-2024-fig1-left": "madden_2024.figure_1",
    "madden-2024-fig1-right": "madden_2024.figure_1",
    "kajitsuka-sato-2025-fig1": "kajitsuka_sato_2025.text_studies",
    "kajitsuka-sato-2025-fig2": "kajitsuka_sato_2025.text_studies",
    "kajitsuka-sato-2025-fig3": "kajitsuka_sato_2025.block_search",
    "kajitsuka-sato-2025-length": "kajitsuka_sato_2025.length",
    "beyond-bits": "beyond_bits",
    "beyond-capacity": "beyond_capacity",
}


def figure_of(name: str) -> Figure:
    """Return the figure with this name. If there is none, raise `UsageError` with the names of all figures."""
    if name not in FIGURES:
        hint = did_you_mean(name, FIGURES)
        raise UsageError(f"there is no figure `{name}`.{hint}\n  Figures: {', '.join(FIGURES)}.", figure=name)
    figures: tuple[Figure, ...] = import_module(f"byheart.reproduce.{FIGURES[name]}").FIGURES
    return next(figure for figure in figures if figure.name == name)
