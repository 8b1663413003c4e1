"""What each number of a planning problem may be, whether a document or arrays say it, a whole column at a time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray

PlaceName = Callable[[int], str]

SMALLEST, LARGEST = 1e-60, 1e60  # beyond these no unit makes sense
MOST_WHOLE = float(2**53)


class ProblemError(ValueError):
    """A planning problem that cannot be used; the message is one line that names the place."""


@dataclass(frozen=True)
class Field:
    """A number's meaning, what it must be in words, and the same as a range (`zero`: 0 besides `[low, high]`)."""

    meaning: str
    must: str = "be positive"
    low: float = SMALLEST
    high: float = LARGEST
    zero: bool = False
    whole: bool = False

    def allowed(self, numbers: NDArray[Any]) -> BoolArray:
        """Which of the numbers may stand here; NaN and infinities never may."""
        inside = (numbers >= self.low) & (numbers <= self.high)
        if self.zero:
            inside |= numbers == 0
        return inside & (numbers == np.floor(numbers)) if self.whole else inside

    def first_wrong(self, numbers: NDArray[Any]) -> int | None:
        """Where the first of the numbers stands that may not; None where all may, found in two passes."""
        if numbers.size and not self.whole and self.low <= numbers.min() and numbers.max() <= self.high:
            return None
        allowed = self.allowed(numbers)
        return None if allowed.all() else int(np.argmin(allowed))

    def refuse(self, value: object, place: str) -> NoReturn:
        """Say that `value` may not stand in a place, and what may."""
        raise ProblemError(f"{place} is {shown(value)}; {self.wanted(value)}")

    def wanted(self, value: object) -> str:
        """What should have stood in the place of `value`, in words."""
        if not _is_number(value):
            return f"{self.meaning} must be a number"
        number = as_float(value)
        beyond = number > max(self.high, 1e15) or number < self.low < 0
        absurd = np.isfinite(number) and (0 < number < self.low or beyond)
        return f"{self.meaning} must {self.must}" + (f" (between {self.low:g} and {self.high:g})" if absurd else "")


NOT_NEGATIVE = "be zero or positive"
POWER_GAIN = Field("a power gain")
POWER_W = Field("a transmit power in W")
NOISE = Field("a noise density in W/Hz")
BITS = Field("a number of bits still to send", NOT_NEGATIVE, zero=True)
ENERGY_J = Field("an energy budget in J")
COMPUTE_J = Field("what computing takes in J", NOT_NEGATIVE, low=0.0)
SECONDS = Field("a compute time in s", NOT_NEGATIVE, low=0.0)
OVERHEAD_S = Field("what a round takes beside its uploads in s", NOT_NEGATIVE, low=0.0)
IMPORTANCE = Field("an importance (a squared norm)", NOT_NEGATIVE, low=0.0)
STALENESS = Field("a staleness in rounds", "be a whole number, 0 or more", low=0.0, high=MOST_WHOLE, whole=True)
SKETCH = Field("an entry of a sketch", "be finite", low=-LARGEST)

TOP_FIELDS = {
    "bandwidth_hz": Field("the bandwidth to share in Hz"),
    "noise_w_per_hz": NOISE,
    "model_bits": Field("the size of an update in bits"),
    "rho": Field("the weight of importance", "lie between 0 and 1", low=0.0, high=1.0),
    "phi": Field("the scale of importance", NOT_NEGATIVE, low=0.0),
    "max_edges": Field(
        "the most edges of a round", "be a whole number, 1 or more", low=1.0, high=MOST_WHOLE, whole=True
    ),
    "staleness_bound": Field(
        "a staleness bound in rounds", "be a whole number, 0 or more", low=0.0, high=MOST_WHOLE, whole=True
    ),
}
EDGE_FIELDS = {
    "gain": POWER_GAIN,
    "power_w": POWER_W,
    "noise_w_per_hz": NOISE,
    "bits": BITS,
    "importance": IMPORTANCE,
    "staleness": STALENESS,
}
UE_FIELDS = {
    "gain": POWER_GAIN,
    "power_w": POWER_W,
    "noise_w_per_hz": NOISE,
    "bits": BITS,
    "compute_s": SECONDS,
    "energy_j": ENERGY_J,
}


def column(values: Sequence[object], field: Field, place: PlaceName) -> FloatArray:
    """The values as one array; the first that may not stand here is refused, with its place from `place(index)`."""
    if not set(map(type, values)) <= {int, float}:
        for index, value in enumerate(values):
            if not _is_number(value):
                field.refuse(value, place(index))
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        numbers = np.array([as_float(value) for value in values])
    wrong = field.first_wrong(numbers)
    if wrong is not None:
        field.refuse(values[wrong], place(wrong))
    return numbers


def known_spectrum(value: object) -> Any:
    """How the band is shared, if it is a way that there is."""
    if value not in ("fixed", "phased"):
        raise ProblemError(f'spectrum is {shown(value)}; it must be "fixed" or "phased"')
    return value


def shown(value: object) -> str:
    """A value as it stood in the problem, on one line and not too long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: object) -> float:
    """A number as a float; infinite where it has hundreds of digits."""
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")
