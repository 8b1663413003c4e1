import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpfl.reporting import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0.0 s"),
        (0.0123, "12.3 ms"),
        (2.44, "2.4 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (3599.4, "59 min 59 s"),
        (3599.9, "1 h 00 min"),
        (7500.0, "2 h 05 min"),
        (400_000.0, "4 d 15 h"),
    ],
)
def test_seconds_are_said_in_the_unit_one_would_use(value: float | None, text: str) -> None:
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "– J"), (0.0, "0 J"), (0.0321, "32.1 mJ"), (3.21, "3.21 J"), (999.6, "1.00 kJ"), (81_200.0, "81.2 kJ")],
)
def test_quantities_carry_an_si_prefix(value: float | None, text: str) -> None:
    assert formats.quantity(value, "J") == text.replace("– J", "–")


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (3.14159, "3.14"), (12_345.0, "12,345"), (12345.6, "12,300"), (0.00123, "0.00123")]
)
def test_numbers_show_the_digits_that_count(value: float, text: str) -> None:
    assert formats.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.2, "0:01"), (72.0, "1:12"), (3725.0, "1:02:05"), (None, "–")])
def test_a_countdown_has_minutes_and_seconds(value: float | None, text: str) -> None:
    assert formats.countdown(value) == text


@given(st.floats(1e-6, 1e14))
def test_a_quantity_is_said_to_within_a_hundredth(value: float) -> None:
    figure, unit = formats.quantity(value, "J").split()
    scale = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit.removesuffix("J")]
    assert float(figure) * scale == pytest.approx(value, rel=0.01)


def test_slow_rounds_are_said_in_seconds_per_round() -> None:
    assert formats.rate(8.26) == "8.3 rounds/s"
    assert formats.rate(0.25) == "4.0 s/round"
    assert formats.rate(None) == "–"
