"""Room that serves again: only when nobody holds what was written to it, in whatever way."""

import numpy as np
import torch

from hpfl.learning.kept import Kept
from hpfl.learning.rooms import Rooms

LARGE = torch.zeros(3, 500_000)


def test_what_nobody_holds_serves_again() -> None:
    rooms = Rooms()
    first = rooms.like(LARGE)
    where = first.data_ptr()
    second = rooms.like(LARGE)
    assert second.data_ptr() != where
    del first
    assert rooms.like(LARGE).data_ptr() == where
    assert len(rooms.held) == 2


def test_rows_that_anybody_sees_are_never_written_over() -> None:
    rooms = Rooms()
    ways = (lambda own: own[1:2], lambda own: own.numpy()[0], lambda own: Kept(own).seen(np.arange(2)), iter)
    for hold in ways:
        own = rooms.like(LARGE)
        where, held = own.data_ptr(), hold(own)
        del own
        others = [rooms.like(LARGE) for _ in range(3)]
        assert where not in {other.data_ptr() for other in others}
        del held, others


def test_small_room_is_made_anew_and_other_sizes_and_types_fit() -> None:
    rooms = Rooms()
    assert rooms.like(LARGE[:, :10]).shape == (3, 10)
    assert not rooms.held
    for like in (LARGE, LARGE.double(), LARGE[:2].contiguous(), torch.zeros(4, 500_000)):
        own = rooms.like(like)
        assert own.shape == like.shape
        assert own.dtype == like.dtype
        own.fill_(1.0)
        assert len(rooms.held) <= 2
