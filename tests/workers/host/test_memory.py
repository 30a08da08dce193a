"""Guarded buffers: where they end, what their bands notice, what can't be written."""

import numpy as np
import pytest

from workers.host import memory
from workers.host.memory import PAGE_BYTES, Arena, GuardedBuffer


@pytest.mark.parametrize(
    ("nbytes", "alignment", "slack"), [(64, 16, 0), (68, 16, 12), (68, 4, 0), (5, 1, 0), (0, 16, 0)]
)
def test_the_end_is_flush_as_far_as_the_alignment_allows(nbytes: int, alignment: int, slack: int) -> None:
    buffer = GuardedBuffer("x", nbytes, alignment)
    assert -(buffer.address + nbytes) % PAGE_BYTES == slack
    assert buffer.address % alignment == 0
    assert buffer.view.shape == (nbytes,)


def test_whole_bands_say_nothing() -> None:
    arena = Arena()
    arena.place("x", np.arange(100, dtype=np.float32)).view[:] = 0
    assert arena.check() == []


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (-1, "before it, the nearest 1 bytes"),
        (-8, "before it, the nearest 8"),
        (20, "behind it, the nearest 1 bytes"),
    ],
)
def test_a_broken_band_names_buffer_and_place_once(offset: int, place: str) -> None:
    arena = Arena()
    buffer = arena.allocate("x", 20)
    whole = buffer._open
    whole[buffer.address - whole.ctypes.data + offset] = 1
    (line,) = arena.check()
    assert line.startswith(f"buffer 'x': 1 bytes written {place}")
    assert arena.check() == []


@pytest.mark.parametrize(
    ("offset", "words"),
    [(100, "0 bytes past the end"), (104, "4 bytes past the end"), (-4, "4 bytes before the start")],
)
def test_an_address_is_described_by_its_buffer(offset: int, words: str) -> None:
    buffer = GuardedBuffer("weights", 100, 4)
    assert f"{words} of buffer 'weights'" in memory.describe(buffer.address + offset, False)


def test_an_address_near_nothing_is_in_no_buffer() -> None:
    assert memory.describe(0x1234567890, True) == "wild access (write to 0x1234567890): in no buffer"


def test_a_view_outlives_its_arena() -> None:
    view = Arena().place("x", np.arange(1000, dtype=np.int32)).view
    assert view.view(np.int32).sum() == 499500


def test_an_odd_alignment_is_refused() -> None:
    with pytest.raises(ValueError, match="alignment 12 of buffer 'x'"):
        GuardedBuffer("x", 10, 12)
