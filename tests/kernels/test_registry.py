"""The registry finds what lies in the folders, and says what there is when asked for what isn't there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path

import pytest

import kernels.kinds
from kernels import catalog, registry
from kernels.errors import UnknownName, UsageError
from kernels.op import Kernel, LaunchKernel


def test_q_kinds_come_first_floats_last_and_names_are_in_order() -> None:
    names = list(registry.kinds())
    first = [name for name in names if name.startswith("Q")]
    last = ["BF16", "F16", "F32"]
    assert names == [*sorted(first), *sorted(set(names) - set(first) - set(last)), *last]
    assert set(names) >= {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}


def test_every_kind_lies_in_a_file_of_its_name() -> None:
    folder = Path(kernels.kinds.__path__[0])
    stems = {path.stem for path in folder.glob("[!_]*.py")}
    assert stems == {name.lower() for name in registry.kinds()}


@pytest.mark.parametrize("written", ["Q4_K", "q4_k", "q4_K"])
def test_kind_is_found_in_any_case_of_letters(written: str) -> None:
    assert registry.kind(written).name == "Q4_K"


def test_unknown_kind_names_those_that_exist() -> None:
    with pytest.raises(UnknownName) as raised:
        registry.kind("Q9_Z")
    assert str(raised.value) == f"no kind named 'Q9_Z'; there are {', '.join(registry.kinds())}"
    assert raised.value.exit_code == 2


def test_unknown_op_names_those_that_exist() -> None:
    with pytest.raises(UnknownName, match=r"no op named 'matvecs'; there are .*matvec"):
        registry.op("matvecs")


@pytest.mark.parametrize("name", ["matvec/blocks", "matvec", "block", ""])
def test_unknown_kernel_names_those_that_exist(name: str) -> None:
    with pytest.raises(UnknownName, match=r"no kernel named .*; there are .*matvec/block"):
        registry.kernel(name)


@pytest.mark.parametrize("kernel_id", list(registry.all_kernels()))
def test_kernel_is_found_by_the_id_it_says(kernel_id: str) -> None:
    kernel = registry.kernel(kernel_id)
    assert kernel.id == kernel_id
    assert kernel.op in registry.ops()
    if isinstance(kernel, LaunchKernel):
        assert registry.launch_kernel(kernel_id) is kernel


def test_kernel_that_is_no_launch_is_refused_where_one_is_needed() -> None:
    for kernel_id, kernel in registry.all_kernels().items():
        if not isinstance(kernel, LaunchKernel):
            with pytest.raises(UnknownName, match="no kernel with a launch of its own named"):
                registry.launch_kernel(kernel_id)


def added(op: str, name: str) -> dict[str, Kernel]:
    """The farm's silu_mul under another name."""
    kernel = copy(registry.built_in()["silu_mul/flat"])
    kernel.op, kernel.name = op, name
    return {kernel.id: kernel}


def test_added_kernels_are_found_only_while_they_are_searched() -> None:
    mine, other = added("silu_mul", "mine"), added("silu_mul", "other")
    with registry.searching(mine):
        assert registry.kernel("silu_mul/mine") is mine["silu_mul/mine"]
        assert list(registry.all_kernels()) == [*registry.built_in(), "silu_mul/mine"]
        with registry.searching(other), pytest.raises(UnknownName, match="no kernel named 'silu_mul/mine'"):
            registry.kernel("silu_mul/mine")
        assert registry.kernel("silu_mul/mine").name == "mine"
    assert registry.all_kernels() is registry.built_in()


def test_added_kernels_are_not_seen_by_another_thread() -> None:
    with registry.searching(added("silu_mul", "mine")), ThreadPoolExecutor(1) as pool:
        assert "silu_mul/mine" not in pool.submit(registry.all_kernels).result()


def test_an_added_kernel_may_not_take_the_name_of_a_built_in_one() -> None:
    with (
        pytest.raises(UsageError, match="may not be named 'silu_mul/flat'"),
        registry.searching(added("silu_mul", "flat")),
    ):
        pass


def test_the_catalog_digest_is_that_of_the_farms_own_kernels() -> None:
    before = catalog.digest()
    with registry.searching(added("silu_mul", "mine")):
        assert catalog.digest() == before
        assert [cell.kernel for cell in catalog.cells() if cell.op == "silu_mul"] == ["flat", "mine"] * 2
