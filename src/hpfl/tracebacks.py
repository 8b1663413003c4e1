"""What a notebook shows of a refusal: the lines of one's own that led to it, and the sentence."""

import traceback
from collections.abc import Iterator
from pathlib import Path

_HOUSE = str(Path(__file__).parent)


def short_traceback(error: BaseException) -> list[str]:
    """Lines for IPython, which asks an error for them (`_render_traceback_`): no step inside of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = next((at for at, frame in enumerate(frames) if frame.filename.startswith(_HOUSE)), len(frames))
    own = [*frames[max(inside - 1, 0) : inside], *_within(error.__cause__)]
    lines = [f"  {frame.name}, line {frame.lineno}: {frame.line}" for frame in own if frame.line]
    return [*lines, f"{type(error).__name__}: {error}"]


def _within(cause: BaseException | None) -> Iterator[traceback.FrameSummary]:
    """Where in a part of one's own an error came from: the last step that is in no installed package."""
    frames = [] if cause is None else traceback.extract_tb(cause.__traceback__)
    own = [each for each in frames if not each.filename.startswith(_HOUSE) and "site-packages" not in each.filename]
    yield from own[-1:]
