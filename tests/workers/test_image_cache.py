"""Images of the latest cases are kept, up to a limit in bytes, and no image can be changed."""

from __future__ import annotations

import pytest

from kernels import registry
from kernels.model import Case
from tests.workers.cases import matvec_case
from workers.files import FileStore
from workers.image_cache import ImageCache, Images


def of(cache: ImageCache, case: Case) -> Images:
    return cache.images(case, registry.kernel(f"{case.op}/{case.kernel}").plan(case))


CASES = [matvec_case(rows=rows) for rows in (3, 4, 5)]


def total(*cases: Case) -> int:
    return sum(of(ImageCache(FileStore()), case).nbytes for case in cases)


def test_the_least_recently_used_goes_first_and_only_as_many_as_must() -> None:
    first, second, third = CASES
    cache = ImageCache(FileStore(), limit_bytes=total(first, third))
    one, two = of(cache, first), of(cache, second)
    assert of(cache, first) is one
    assert of(cache, third) is of(cache, third)
    assert of(cache, first) is one  # the second one was older
    again = of(cache, second)
    assert again is not two
    assert again.digest == two.digest
    assert of(cache, second) is again


def test_what_is_larger_than_the_limit_is_kept_alone() -> None:
    first, second, _ = CASES
    cache = ImageCache(FileStore(), limit_bytes=1)
    one = of(cache, first)
    assert of(cache, first) is one
    of(cache, second)
    assert of(cache, first) is not one


def test_an_image_is_read_only() -> None:
    images = of(ImageCache(FileStore()), CASES[0])
    assert images.by_name
    for image in images.by_name.values():
        with pytest.raises(ValueError, match="read-only"):
            image[0] = 1
