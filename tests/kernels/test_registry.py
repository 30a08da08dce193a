"""The registry finds what lies in the folders, and says what there is when asked for what isn't there."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernels.kinds
from kernels import registry
from kernels.errors import UnknownName
from kernels.op import LaunchKernel


def test_q_kinds_come_first_and_names_are_in_order() -> None:
    names = list(registry.kinds())
    first = [name for name in names if name.startswith("Q")]
    assert names[: len(first)] == sorted(first)
    assert names[len(first) :] == sorted(set(names) - set(first))
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
