"""Why one group of runs reached an accuracy sooner than another: fewer or shorter rounds, and what made them so."""

import math

from hpfl.reporting import formats
from hpfl.reporting.intervals import Interval
from hpfl.reporting.targets import Target
from hpfl.reporting.ways import NOTICEABLE, Ratio, Ways, ratio, share_a_seed


def why(one: Ways, other: Ways, target: Target, *, brief: bool = False) -> str:
    """In words, with figures from the records: which of the two reached `target` sooner, and, unless brief, why."""
    found = ratio(one, other)
    if found is None:
        return _untimed(one, other, target)
    fast, slow = (one, other) if found.time.mean >= 1 else (other, one)
    found = found if fast is one else ratio(fast, slow)
    assert found is not None
    reasons = [] if brief else [_decomposition(fast, slow, found), *_rounds_were_like(fast, slow)]
    return " ".join([_verdict(fast, slow, found, target), *reasons])


def times_text(factor: float) -> str:
    """`3.1 times`, with the digits that count."""
    return f"{_digits(factor)} times"


def factor_text(of: Interval, unit: str = "") -> str:
    """`3.1`, and where seeds tell an interval `3.1 (2.8 .. 3.4)`; a unit stands before it."""
    if of.low is None or of.high is None:
        return f"{_digits(of.mean)}{unit}"
    mean, low, high = (f"{value:.1f}" if of.high < 99.5 else f"{value:.0f}" for value in (of.mean, of.low, of.high))
    return f"{mean}{unit} ({low} .. {high})"


def _untimed(one: Ways, other: Ways, target: Target) -> str:
    """No ratio: somebody did not arrive, or arrived before any time had passed; or there are no seeds to pair."""
    told = f"{target.full[0].upper()}{target.full[1:]} was reached by {_arrival(one)} and by {_arrival(other)}."
    if share_a_seed(one.group, other.group):
        return told
    return f"{told} They have no seed in common, and one seed is never set against another: no ratio is formed."


def _arrival(ways: Ways) -> str:
    runs, arrived = ways.group.runs, ways.arrived
    if ways.all_arrived:
        return f"{ways.group.label} after {_time(ways, _seeds_matter(ways))}"
    if len(runs) > 1:
        return f"{ways.group.label} in {len(arrived) or 'none'} of {len(runs)} seeds"
    spent = f"{len(runs[0].rows)} rounds ({formats.seconds(runs[0].rows[-1]['time_s'])})"
    return f"{ways.group.label} not at all within its {spent}"


def _verdict(fast: Ways, slow: Ways, found: Ratio, target: Target) -> str:
    told = _seeds_matter(fast, slow)
    other = "" if slow.group.time_word == fast.group.time_word else f" of {slow.group.time_word}"
    sooner = f"{_time(fast, told)} of {fast.group.time_word}"
    times = f"{sooner}, {slow.group.label} after {_time(slow, told)}{other}"
    who = f"{fast.group.label} reached {target.full}"
    return f"{who} after {times}: {_how_much(found, told)}."


def _time(ways: Ways, told: bool) -> str:
    """The mean time, and where seeds are told of its interval and their number."""
    of = ways.over_seeds(lambda way: way.time_s)
    assert of is not None
    if not told:
        return formats.seconds(of.mean)
    margin = "" if of.high is None else f" {formats.margin_s(of.high - of.mean, beside=of.mean)}"
    return f"{formats.seconds(of.mean)}{margin} ({ways.group.seeds_text})"


def _how_much(found: Ratio, told: bool) -> str:
    if found.open:
        return f"{factor_text(found.time)} times, so that {_common(found)} do not tell which is sooner"
    if not told:
        return "at the same time" if found.time.mean < NOTICEABLE else f"{times_text(found.time.mean)} sooner"
    return f"{factor_text(found.time)} times sooner, over {_common(found)}"


def _common(found: Ratio) -> str:
    return "1 common seed" if found.time.count == 1 else f"{found.time.count} common seeds"


def _decomposition(fast: Ways, slow: Ways, found: Ratio) -> str:
    """The time ratio is exactly the ratio of rounds times the ratio of seconds per round."""
    by_rounds, by_seconds = found.rounds, found.seconds_per_round
    helps = math.copysign(1, by_rounds - 1) == math.copysign(1, by_seconds - 1)
    joint = "and" if helps or _equal(by_rounds) or _equal(by_seconds) else "but"
    counts = " against ".join(formats.number(ways.mean(lambda way: way.rounds)) for ways in (fast, slow))
    lengths = " against ".join(formats.seconds(ways.mean(lambda way: way.seconds_per_round)) for ways in (fast, slow))
    rounds = f"It needed {_more_or_less(by_rounds, 'rounds')} ({counts})"
    product = f"{by_rounds:.2f} × {by_seconds:.2f} = {found.time.mean:.2f}"
    return f"{rounds} {joint} each took {_longer_or_shorter(by_seconds)} ({lengths}): {product}."


def _rounds_were_like(fast: Ways, slow: Ways) -> list[str]:
    both = (fast, slow)
    called = [f"{ways.mean(lambda way: way.edges_per_round):.1f}" for ways in both]
    old = [f"{ways.mean(lambda way: way.staleness):.1f}" for ways in both]
    edges = f"Its rounds called {called[0]} edges against {called[1]}"
    staleness = f"used updates {old[0]} rounds old against {old[1]}"
    if not all(way.uplink_bits for ways in both for way in ways.arrived):
        return [f"{edges} and {staleness}."]
    rates = [formats.quantity(ways.mean(lambda way: (way.uplink_bits or 0.0) / way.time_s), "bit/s") for ways in both]
    return [f"{edges}, {staleness}, and moved {rates[0]} over the air against {rates[1]}."]


def _seeds_matter(*ways: Ways) -> bool:
    """Whether there are several seeds to speak of."""
    return any(len(each.group.runs) > 1 for each in ways)


def _digits(factor: float) -> str:
    return f"{factor:.1f}" if factor < 9.95 else f"{factor:.0f}"


def _equal(factor: float) -> bool:
    return 1 / NOTICEABLE < factor < NOTICEABLE


def _more_or_less(factor: float, noun: str) -> str:
    if _equal(factor):
        return f"as many {noun}"
    return f"{factor:.2f} times fewer {noun}" if factor > 1 else f"{1 / factor:.2f} times more {noun}"


def _longer_or_shorter(factor: float) -> str:
    if _equal(factor):
        return "as long"
    return f"{factor:.2f} times less" if factor > 1 else f"{1 / factor:.2f} times longer"
