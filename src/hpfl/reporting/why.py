"""Why one run reached an accuracy sooner than another: fewer rounds, shorter rounds, and what made them so."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpfl.reporting import formats
from hpfl.reporting.runs import RunView
from hpfl.reporting.summary import highest_target, time_to_target, total

NOTICEABLE = 1.02
"""Ratios nearer to 1 than this are called equal."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The way of one run to the target: what it took, and what its rounds were like until then."""

    label: str
    time_word: str
    time_s: float
    rounds: int
    accuracy: float
    edges_per_round: float
    staleness: float
    uplink_bits: float | None
    energy_j: float | None

    @property
    def seconds_per_round(self) -> float:
        """Seconds of a mean round on the way."""
        return self.time_s / self.rounds


def common_target(runs: Sequence[RunView]) -> tuple[float | None, str]:
    """The configured target if it is one and all reach it; else the highest accuracy all reach, to 0.1 % below."""
    configured = {view.setting("evaluation", "target_accuracy") for view in runs}
    for wanted in configured if len(configured) == 1 else ():
        if wanted is not None and all(time_to_target(view.rows, wanted) for view in runs):
            return float(wanted), "as configured"
    highest = [highest_target(view.rows) for view in runs]
    if not highest or any(value is None for value in highest):
        return None, "some run has fewer than three evaluations of accuracy"
    return math.floor(min(value for value in highest if value is not None) * 1000) / 1000, "highest that all reach"


def way_to(view: RunView, target: float) -> Way | None:
    """The way of `view` to `target` personalised accuracy; None if it never got there."""
    reached = time_to_target(view.rows, target)
    if reached is None:
        return None
    rows = view.rows[: reached.round]
    return Way(
        label=view.label,
        time_word=view.time_word,
        time_s=reached.time_s,
        rounds=reached.round,
        accuracy=rows[-1]["personalised_accuracy"],
        edges_per_round=float(np.mean(view.column("num_scheduled")[: reached.round])),
        staleness=float(np.mean(view.column("mean_staleness")[: reached.round])),
        uplink_bits=total(rows, "uplink_bits"),
        energy_j=total(rows, "energy_j"),
    )


def why(one: RunView, other: RunView, target: float) -> str:
    """In words, with figures from the records: which of the two reached `target` sooner, and why."""
    ways = way_to(one, target), way_to(other, target)
    if ways[0] is None or ways[1] is None:
        return _unreached(one, other, target)
    fast, slow = sorted((way for way in ways if way is not None), key=lambda way: way.time_s)
    return " ".join([_verdict(fast, slow, target), _decomposition(fast, slow), *_rounds_were_like(fast, slow)])


def _unreached(one: RunView, other: RunView, target: float) -> str:
    sentences = []
    for view in (one, other):
        way = way_to(view, target)
        spent = f"{len(view.rows)} rounds ({formats.seconds(view.rows[-1]['time_s'])})"
        outcome = f"after {formats.seconds(way.time_s)}" if way else f"not at all within its {spent}"
        sentences.append(f"{view.label} {outcome}")
    return f"{formats.share(target)} personalised accuracy was reached by {' and by '.join(sentences)}."


def _verdict(fast: Way, slow: Way, target: float) -> str:
    ratio = slow.time_s / fast.time_s
    other = "" if slow.time_word == fast.time_word else f" of {slow.time_word}"
    sooner, later = f"{formats.seconds(fast.time_s)} of {fast.time_word}", f"{formats.seconds(slow.time_s)}{other}"
    times = f"{sooner}, {slow.label} after {later}"
    end = "at the same time" if ratio < NOTICEABLE else f"{times_text(ratio)} sooner"
    return f"{fast.label} reached {formats.share(target)} personalised accuracy after {times}: {end}."


def _decomposition(fast: Way, slow: Way) -> str:
    """The time ratio is exactly the ratio of rounds times the ratio of seconds per round."""
    by_rounds, by_seconds = slow.rounds / fast.rounds, slow.seconds_per_round / fast.seconds_per_round
    helps = math.copysign(1, by_rounds - 1) == math.copysign(1, by_seconds - 1)
    joint = "and" if helps or _equal(by_rounds) or _equal(by_seconds) else "but"
    rounds = f"It needed {_more_or_less(by_rounds, 'rounds')} ({fast.rounds} against {slow.rounds})"
    lengths = f"{formats.seconds(fast.seconds_per_round)} against {formats.seconds(slow.seconds_per_round)}"
    product = f"{by_rounds:.2f} × {by_seconds:.2f} = {slow.time_s / fast.time_s:.2f}"
    return f"{rounds} {joint} each took {_longer_or_shorter(by_seconds)} ({lengths}): {product}."


def _rounds_were_like(fast: Way, slow: Way) -> list[str]:
    edges = f"Its rounds called {fast.edges_per_round:.1f} edges against {slow.edges_per_round:.1f}"
    staleness = f"used updates {fast.staleness:.1f} rounds old against {slow.staleness:.1f}"
    if not fast.uplink_bits or not slow.uplink_bits:
        return [f"{edges} and {staleness}."]
    rates = [formats.quantity(way.uplink_bits / way.time_s, "bit/s") for way in (fast, slow) if way.uplink_bits]
    return [f"{edges}, {staleness}, and moved {rates[0]} over the air against {rates[1]}."]


def times_text(ratio: float) -> str:
    """`3.1 times`, with the digits that count."""
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:.0f} times"


def _equal(ratio: float) -> bool:
    return 1 / NOTICEABLE < ratio < NOTICEABLE


def _more_or_less(ratio: float, noun: str) -> str:
    if _equal(ratio):
        return f"as many {noun}"
    return f"{ratio:.2f} times fewer {noun}" if ratio > 1 else f"{1 / ratio:.2f} times more {noun}"


def _longer_or_shorter(ratio: float) -> str:
    if _equal(ratio):
        return "as long"
    return f"{ratio:.2f} times less" if ratio > 1 else f"{1 / ratio:.2f} times longer"
