"""What each number of a planning document may be, checked a whole column at a time."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hpfl.planning.problem import BoolArray, FloatArray

Place = Callable[[int], str]

# Beyond these no unit makes sense, and within them no product of a planner's arithmetic overflows.
SMALLEST, LARGEST = 1e-60, 1e60
MOST_WHOLE = float(2**53)


class DocumentError(ValueError):
    """A planning document that cannot be used; the message is one line that names the place."""


@dataclass(frozen=True)
class Field:
    """A number's meaning, what it must be in words, and the same as a range (`zero`: 0 besides `[low, high]`)."""

    meaning: str
    must: str = "be positive"
    low: float = SMALLEST
    high: float = LARGEST
    zero: bool = False
    whole: bool = False

    def allowed(self, numbers: FloatArray) -> BoolArray:
        """Which of the numbers may stand here; NaN and infinities never may."""
        inside = (numbers >= self.low) & (numbers <= self.high)
        if self.zero:
            inside |= numbers == 0
        return inside & (numbers == np.floor(numbers)) if self.whole else inside

    def wanted(self, value: object) -> str:
        """What should have stood in the place of `value`, in words."""
        if not _is_number(value):
            return f"{self.meaning} must be a number"
        number = _as_float(value)
        absurd = np.isfinite(number) and (0 < number < self.low or number > max(self.high, 1e15))
        return f"{self.meaning} must {self.must}" + (f" (between {self.low:g} and {self.high:g})" if absurd else "")


NOT_NEGATIVE = "be zero or positive"
POWER_GAIN = Field("a power gain")
POWER_W = Field("a transmit power in W")
NOISE = Field("a noise density in W/Hz")
BITS = Field("a number of bits still to send", NOT_NEGATIVE, zero=True)
ENERGY_J = Field("an energy budget in J")
SECONDS = Field("a compute time in s", NOT_NEGATIVE, low=0.0)
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


def column(values: Sequence[object], field: Field, place: Place) -> FloatArray:
    """The values as one array; the first that may not stand here is refused, with its place from `place(index)`."""
    if not set(map(type, values)) <= {int, float}:
        _refuse((not _is_number(value) for value in values), values, field, place)
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        numbers = np.array([_as_float(value) for value in values])
    allowed = field.allowed(numbers)
    if not allowed.all():
        _refuse((~allowed).tolist(), values, field, place)
    return numbers


def shown(value: object) -> str:
    """A value as it stood in the document, on one line and not too long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def _refuse(wrong: Iterable[bool], values: Sequence[object], field: Field, place: Place) -> None:
    for index, is_wrong in enumerate(wrong):
        if is_wrong:
            raise DocumentError(f"{place(index)} is {shown(values[index])}; {field.wanted(values[index])}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")
