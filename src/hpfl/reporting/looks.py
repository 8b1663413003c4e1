"""The looks a figure can have: on a screen, or in the columns of a paper, where nothing may depend on colour alone."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

INK, MUTED, SLATE, FAINT, PAPER = "#1f2933", "#6b7785", "#9fb0c3", "#e3e7ec", "#ffffff"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#b5579b", "#e69f00", "#56b4e9"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
"""Okabe and Ito's palette, told apart with any kind of colour vision; purple a little darker for thin lines."""
PRINTED = ("#000000", "#00408a", "#b03a10", "#30ac68", "#b888d8", "#f0c64a")
"""From black to light, evenly enough that a copier in grey tells neighbours apart."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2)), (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "X")

KINDS: Mapping[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Suffixes of figures, each with what is left out of its file so that the same figure gives the same bytes."""

_QUIET: dict[str, Any] = {
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.solid_capstyle": "round",
    "svg.hashsalt": "hpfl",
    "figure.facecolor": PAPER,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}
"""Fonts are embedded whole, as Type 42: journals refuse Type 3."""
_SCREEN_RC = _QUIET | {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.7,
    "svg.fonttype": "none",
}
_POINTS = 8.0
_IEEE_RC = _QUIET | {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": _POINTS,
    "axes.labelsize": _POINTS,
    "axes.titlesize": _POINTS,
    "axes.titleweight": "normal",
    "axes.titlepad": 4,
    "figure.titlesize": _POINTS,
    "legend.fontsize": _POINTS,
    "xtick.labelsize": _POINTS,
    "ytick.labelsize": _POINTS,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "path",
}


@dataclass(frozen=True, kw_only=True)
class FigureLook:
    """How figures look: how wide they are (None: as drawn), whether they have a headline, whether they are printed.

    Of a printed look all text is 8 points, and lines and bars are told apart by dashes, marks and hatches too.
    """

    name: str
    about: str
    width_in: float | None
    printed: bool
    rc: Mapping[Any, Any]
    dpi: int

    @property
    def narrow(self) -> bool:
        """Whether panels have to stand above each other, and names of lines in a legend."""
        return self.width_in is not None and self.width_in < 5


LOOKS: Mapping[str, FigureLook] = {
    look.name: look
    for look in (
        FigureLook(name="screen", about="for a screen", width_in=None, printed=False, rc=_SCREEN_RC, dpi=150),
        FigureLook(
            name="ieee", about="one column of a paper, 3.5 in", width_in=3.5, printed=True, rc=_IEEE_RC, dpi=600
        ),
        FigureLook(name="ieee-wide", about="two columns, 7.16 in", width_in=7.16, printed=True, rc=_IEEE_RC, dpi=600),
    )
}


@dataclass(frozen=True)
class FigureWish:
    """What somebody wants figures to be: their look, and the kinds of file (none: those that are usual)."""

    look: FigureLook
    kinds: tuple[str, ...] = ()


_USUAL = FigureWish(LOOKS["screen"])
_ASKED: ContextVar[FigureWish] = ContextVar("figures_asked", default=_USUAL)


def asked() -> FigureWish:
    """What is wanted of the figure that is being drawn."""
    return _ASKED.get()


@contextmanager
def drawn_as(look: str = "screen", kinds: Sequence[str] = ()) -> Iterator[None]:
    """Figures drawn within the block have this look, and those that come in several kinds of file these kinds.

    The doors set it, for a study draws through a dozen hands that have no say in it.
    """
    if look not in LOOKS:
        raise ValueError(f"no style of figures is called {look!r}; there are {', '.join(LOOKS)}")
    before = _ASKED.set(FigureWish(LOOKS[look], tuple(dict.fromkeys(kinds))))
    try:
        yield
    finally:
        _ASKED.reset(before)
