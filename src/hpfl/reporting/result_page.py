"""A run as a few lines of HTML for a notebook: its key figures, and the course of its accuracy or loss as a curve."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.runs import RunView
from hpfl.reporting.targets import ACCURACY, LOSS

_WIDTH, _HEIGHT, _LEFT, _FOOT, _RIGHT = 430, 150, 56, 22, 96
_ACCURACIES = ((ACCURACY, "personalised", style.BLUE, ""), ("global_accuracy", "global", style.VERMILLION, "5 3"))
_LOSSES = ((LOSS, "personalised", style.BLUE, ""), ("test_loss", "global", style.VERMILLION, "5 3"))
_MOST_POINTS = 400
CurveLine = tuple[FloatArray, FloatArray, str, str, str]
"""Seconds, values, name, colour and dashes of one line."""


def result_page(view: RunView, *, how: str, error: str = "", folder: Path | None = None) -> str:
    """The page; every name and text in it is escaped, and nothing is fetched from elsewhere."""
    figures = "".join(
        f'<tr><th style="text-align:left;padding-right:1em">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in _figures(view, how, error, folder)
    )
    table = f'<table style="border:none">{figures}</table>'
    return (
        f"<div><strong>{escape(view.label)}</strong>"
        f'<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">{table}{_curve(view)}</div></div>'
    )


def _figures(view: RunView, how: str, error: str, folder: Path | None) -> Iterator[tuple[str, str]]:
    summary, rows = view.summary, view.rows
    yield "rounds", f"{len(rows)}, {how}" if not error else f"{len(rows)}, {how}: {error}"
    if rows:
        yield view.time_word, formats.seconds(rows[-1]["time_s"])
    if summary.get("final_personalised_accuracy") is not None:
        worst = formats.share(summary.get("final_personalised_accuracy_p10"))
        yield "accuracy, personalised", f"{formats.share(summary[f'final_{ACCURACY}'])} (worst decile {worst})"
        yield "accuracy, global", formats.share(summary.get("final_global_accuracy"))
    elif summary.get(f"final_{LOSS}") is not None:
        yield "test loss, personalised", formats.number(summary[f"final_{LOSS}"])
        yield "test loss, global", formats.number(summary.get("final_test_loss"))
    target = view.target
    if summary and target is not None:
        yield f"time to {target.short}", formats.seconds(summary.get("time_to_target_s"))
    if summary.get("energy_j") is not None:
        yield "energy", formats.quantity(summary["energy_j"], "J")
    if view.planner is not None:
        yield "planner, seed", f"{view.planner}, {view.seed}"
    if folder is not None:
        yield "folder", str(folder)


def _curve(view: RunView) -> str:
    """An inline SVG of accuracies over time, or of losses where there are none; empty before two evaluations."""
    courses = _courses(view, _ACCURACIES) or _courses(view, _LOSSES)
    if not courses:
        return ""
    is_share = courses[0][1].max() <= 1 and len(view.evaluated(ACCURACY)[1]) > 0
    last_s = max(float(course[0][-1]) for course in courses) or 1.0
    low = 0.0 if is_share else min(float(course[1].min()) for course in courses)
    high = 1.0 if is_share else max(float(course[1].max()) for course in courses)
    lines = "".join(_line(course, last_s, low, (high - low) or 1.0) for course in courses)
    unit_s, unit = style.time_unit(last_s)
    what = "accuracy" if is_share else "test loss"
    ends = [formats.share(end) if is_share else formats.number(end) for end in (low, high)]
    said = escape(f"{what} over {view.time_word}", quote=True)
    texts = (
        _text(_LEFT - 6, _HEIGHT - _FOOT, ends[0], "end"),
        _text(_LEFT - 6, 14, ends[1], "end"),
        _text(_LEFT, _HEIGHT - 4, "0", "start"),
        _text(_WIDTH - _RIGHT, _HEIGHT - 4, f"{last_s / unit_s:.4g} {unit}", "end"),
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}" '
        f'font-size="11" fill="currentColor"><path d="M{_LEFT} 8V{_HEIGHT - _FOOT}H{_WIDTH - _RIGHT}" fill="none" '
        f'stroke="currentColor" opacity="0.4"/>{"".join(texts)}{lines}</svg>'
    )


def _courses(view: RunView, wanted: tuple[tuple[str, str, str, str], ...]) -> list[CurveLine]:
    found = [(*view.evaluated(metric), name, colour, dashes) for metric, name, colour, dashes in wanted]
    return [course for course in found if len(course[1]) > 1]


def _line(course: CurveLine, last_s: float, low: float, span: float) -> str:
    time_s, values, name, colour, dashes = course
    step = max(1, len(values) // _MOST_POINTS)
    x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * time_s / last_s
    y = _HEIGHT - _FOOT - (_HEIGHT - _FOOT - 8) * (values - low) / span
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[::step], y[::step], strict=True))
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    drawn = f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dashed}/>'
    place = float(y[-1]) + (4 if dashes == "" else 10)
    return drawn + f'<text x="{_WIDTH - _RIGHT + 6}" y="{place:.1f}" fill="{colour}">{escape(name)}</text>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
