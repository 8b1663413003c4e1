"""Any t shares give the secret back; t - 1 of them go with every other secret as well."""

import itertools

import pytest
import shamirs
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.secrecy.shamir import FIELD, coefficients, combined, new_secret, shared

SECRETS = st.integers(0, FIELD - 1)


@settings(max_examples=30, deadline=None)
@given(secret=SECRETS, quantity=st.integers(2, 30), data=st.data())
def test_any_threshold_of_shares_gives_the_secret_back(secret, quantity, data):
    threshold = data.draw(st.integers(1, quantity))
    shares = shared(secret, quantity, threshold)
    points = data.draw(st.permutations(range(1, quantity + 1)))[:threshold]
    assert combined(coefficients(points), [shares[point - 1] for point in points]) == secret


@settings(max_examples=20, deadline=None)
@given(secret=SECRETS, other=SECRETS)
def test_fewer_shares_go_with_every_other_secret(secret, other):
    """Through t - 1 shares and any secret at 0 there is a polynomial of degree t - 1: no secret is ruled out."""
    threshold, shares = 4, shared(secret, 6, 4)
    known = {0: other} | {point: shares[point - 1] for point in (1, 3, 6)}

    def through(at):
        moved = [(point - at) % FIELD for point in known]
        return combined(coefficients(moved), list(known.values()))

    explained = [through(point) for point in range(1, 7) if point not in known]
    assert all(known[point] == shares[point - 1] for point in known if point)
    everything = known | dict(zip([point for point in range(1, 7) if point not in known], explained, strict=True))
    for points in itertools.combinations(range(1, 7), threshold):
        assert combined(coefficients(points), [everything[point] for point in points]) == other


@pytest.mark.parametrize(("quantity", "threshold"), [(2, 2), (7, 5), (100, 67)])
def test_one_share_too_few_gives_another_number(quantity, threshold):
    secret = new_secret()
    shares, points = shared(secret, quantity, threshold), range(1, threshold)
    assert combined(coefficients(points), [shares[point - 1] for point in points]) != secret


def test_the_library_puts_its_shares_together_to_the_same():
    secret = new_secret()
    shares = shamirs.shares(secret, 7, modulus=FIELD, threshold=5)
    assert shamirs.interpolate(shares[1:6], threshold=5) == secret
    assert combined(coefficients([2, 3, 4, 5, 6]), [one.value for one in shares[1:6]]) == secret


def test_shares_of_one_secret_are_drawn_anew_each_time():
    assert shared(5, 4, 3) != shared(5, 4, 3)
    assert len({new_secret() for _ in range(20)}) == 20


@pytest.mark.parametrize("points", [(0, 1), (1, 1), (FIELD, 2)])
def test_points_that_are_none_are_refused(points):
    with pytest.raises(ValueError, match="points must be different"):
        coefficients(points)
