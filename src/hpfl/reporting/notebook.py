"""What a run looks like in a notebook: one panel below its cell, renewed in place; no widgets are needed."""

import io
import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType

from hpfl.reporting.console import RunDisplay

RENEWED_S = 0.25
"""The panel is renewed no more often than this."""
_WIDTH = 100
_PRE = '<pre style="line-height:1.3;margin:0;white-space:pre;font-family:monospace">{code}</pre>'


class NotebookDisplay(RunDisplay):
    """Watches one run from a cell of a notebook."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._renew: Callable[..., None] | None = None
        self._renewed_s = -math.inf

    @property
    def is_live(self) -> bool:
        """Always: a cell can be drawn on."""
        return not self._quiet

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seen.record is not None and self.is_live:
            self._draw()

    def _start(self) -> None:
        if self._stopwatch() - self._renewed_s >= RENEWED_S:
            self._draw()

    def _draw(self) -> None:
        """The panel as it is now: in the place of the one before, if there is one."""
        from IPython.display import display  # here only in a notebook

        self._renewed_s, media = self._stopwatch(), drawn(self._panel())
        if self._renew is None:
            self._renew = display(media, raw=True, display_id=True).update  # type: ignore[no-untyped-call]
        else:
            self._renew(media, raw=True)

    def _print(self, text: str) -> None:
        print(text)  # a stream of its own below the cell; rich would make it a page


def drawn(panel: RenderableType) -> Mapping[str, str]:
    """A panel by kinds of media; what it says is escaped."""
    console = Console(file=io.StringIO(), record=True, width=_WIDTH, force_jupyter=False, force_terminal=False)
    console.print(panel)
    text = console.export_text(clear=False)
    return {"text/html": console.export_html(inline_styles=True, code_format=_PRE), "text/plain": text}
