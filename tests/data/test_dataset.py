from dataclasses import replace

import numpy as np
import pytest

from hpfl.data.dataset import Dataset, DatasetError, to_float

IMAGES = Dataset(
    name="toy",
    inputs=np.full((4, 2, 3, 3), 51, np.uint8),
    targets=np.array([0, 1, 2, 1]),
    num_classes=3,
    test_inputs=np.zeros((2, 2, 3, 3), np.uint8),
    test_targets=np.array([0, 2]),
    sample_bits=18 * 8,
)


def test_bytes_become_fractions_in_single_precision() -> None:
    scaled = to_float(IMAGES, np.array([0, 51, 255], np.uint8).reshape(3, 1, 1, 1))
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.ravel(), [0.0, 0.2, 1.0], rtol=1e-6)


def test_channels_are_standardised_each_by_its_own_constants() -> None:
    standard = replace(IMAGES, mean=(0.1, 0.2), std=(0.1, 0.5))
    scaled = to_float(standard, standard.inputs)
    np.testing.assert_allclose(scaled[:, 0], 1.0, rtol=1e-5)
    np.testing.assert_allclose(scaled[:, 1], 0.0, atol=1e-6)


def test_features_are_left_as_they_are() -> None:
    features = np.array([[0.5, -3.0]], np.float32)
    assert to_float(IMAGES, features) is features


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"targets": np.array([0, 1])}, "training part: 4 inputs but 2 targets"),
        ({"targets": np.array([0, 1, 2, 3])}, "training part: targets must be int64 classes from 0 to 2"),
        ({"targets": np.array([0, -1, 2, 1])}, "training part: targets must be int64 classes"),
        ({"test_targets": np.array([0, 1], np.int32)}, "test part: targets must be int64 classes"),
        ({"inputs": np.zeros((4, 2))}, "inputs are float64; they must be uint8, float32 or int64"),
        ({"inputs": np.full((4, 2), np.nan, np.float32)}, "some inputs are not finite"),
        ({"num_classes": None, "targets": np.full(4, np.inf, np.float32)}, "some targets are not finite"),
    ],
)
def test_data_that_is_half_right_is_refused_saying_which_part(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(DatasetError, match=fault):
        replace(IMAGES, **changes)  # type: ignore[arg-type]
