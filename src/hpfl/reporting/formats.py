"""How numbers are said to people: seconds, shares, bits and joules in a few characters."""

import math
from collections.abc import Mapping
from typing import Any

UNKNOWN = "–"
_PREFIXES = ("", "k", "M", "G", "T", "P")
_SIZES = {"m": 1e-3} | {prefix: 1e3**step for step, prefix in enumerate(_PREFIXES)}


def seconds(value: float | None) -> str:
    """`2.4 s`, `13 min 20 s`, `2 h 05 min`, `3 d 4 h`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 99.95:
        return f"{value:.1f} s" if value >= 0.95 or value == 0 else f"{value * 1e3:.3g} ms"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(value / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(value / 3600)
    return f"{hours // 24} d {hours % 24} h"


def margin_s(half: float, *, beside: float) -> str:
    """`± 0.3 s`, half an interval, in the unit of the seconds it stands beside unless it is far smaller."""
    if beside < 0.95 or half >= 99.95:
        return f"± {seconds(half)}"
    return f"± {half:.1f} s" if half >= 0.05 or half == 0 else f"± {half:.1g} s"


def margin(half: float, *, beside: str) -> str:
    """`± 0.07`, half an interval, with the digits and in the unit of the figure it stands beside: `1.28`, `12.8 kJ`."""
    head, _, unit = beside.partition(" ")
    prefix = unit[:-1] if unit[:-1] in _SIZES else ""
    decimals, value = len(head.partition(".")[2]), half / _SIZES[prefix]
    shown = f"{value:.{decimals}f}" if value >= 0.5 * 10**-decimals or value == 0 else f"{value:.1g}"
    return f"± {shown} {unit}".rstrip()


def countdown(value: float | None) -> str:
    """Wall time still to wait, `0:12` or `1:02:30`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    whole = math.ceil(value)
    minutes = f"{whole // 60 % 60:02d}" if whole >= 3600 else f"{whole // 60}"
    return f"{whole // 3600}:{minutes}:{whole % 60:02d}" if whole >= 3600 else f"{minutes}:{whole % 60:02d}"


def share(value: float | None) -> str:
    """A number between 0 and 1 in per cent, `91.2 %`."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with so many digits that count; whole ones in full."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == round(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    shown = f"{value:.{digits}g}"
    return f"{float(shown):,.0f}" if "e+" in shown and abs(value) < 1e6 else shown


def quantity(value: float | None, unit: str) -> str:
    """A quantity with an SI prefix, `3.2 kJ`, `812 Mbit`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 0 < abs(value) < 0.9995:
        return f"{value * 1e3:.3g} m{unit}"
    step = 0
    while abs(value) >= 999.5 and step < len(_PREFIXES) - 1:
        value, step = value / 1e3, step + 1
    digits = 0 if value == 0 or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {_PREFIXES[step]}{unit}"


def rate(per_second: float | None) -> str:
    """Rounds per second, or the other way round when they are slow."""
    if not per_second or not math.isfinite(per_second):
        return UNKNOWN
    return f"{per_second:.1f} rounds/s" if per_second >= 0.95 else f"{1 / per_second:.1f} s/round"


def final_quality(summary: Mapping[str, Any]) -> str:
    """Final accuracies of a run or, where there are none, as in regression, its losses."""
    personalised, shared = summary["final_personalised_accuracy"], summary["final_global_accuracy"]
    if personalised is not None and shared is not None:
        return f"personalised accuracy {personalised:.3f}, global {shared:.3f}"
    ours, shared = (number(summary[f"final_{name}"]) for name in ("personalised_test_loss", "test_loss"))
    return f"personalised test loss {ours}, global {shared}"
