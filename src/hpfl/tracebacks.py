"""What a notebook shows of a refusal: the line of one's own that led to it, and the sentence."""

import traceback
from pathlib import Path

_HOUSE = str(Path(__file__).parent)


def short_traceback(error: BaseException) -> list[str]:
    """Lines for IPython, which asks an error for them (`_render_traceback_`): no step inside of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = next((at for at, frame in enumerate(frames) if frame.filename.startswith(_HOUSE)), len(frames))
    own = frames[max(inside - 1, 0) : inside]
    lines = [f"  line {frame.lineno}: {frame.line}" for frame in own if frame.line]
    return [*lines, f"{type(error).__name__}: {error}"]
