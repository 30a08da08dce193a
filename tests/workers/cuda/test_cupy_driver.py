"""CuPy's side of the seam: on a machine without a driver every call says so by its code."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import registry, source
from kernels.model import Build
from tests.workers.cases import matvec_case
from workers.backend import Unavailable
from workers.backends import nvrtc as building
from workers.cuda import code, libcuda
from workers.cuda.arch import Target
from workers.cuda.cupy_driver import no_cublas
from workers.cuda.driver import Driver, Gemm
from workers.cuda.errors import CudaError
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc

ROOT = Path(__file__).parents[3]
CALLS: dict[str, Callable[[Any], object]] = {
    "capability": lambda d: d.capability(),
    "room": lambda d: d.room(),
    "allocate": lambda d: d.allocate(16),
    "upload": lambda d: d.upload(256, np.zeros(4, np.uint8)),
    "download": lambda d: d.download(256, 4),
    "copy": lambda d: d.copy(512, 256, 4),
    "entry": lambda d: d.entry(Path("/nowhere.cubin"), "k"),
    "event": lambda d: d.event(),
    "wait": lambda d: d.wait(),
}


@pytest.fixture
def driver() -> Driver:
    pytest.importorskip("cupy", reason="CuPy isn't installed; ./run pip install -e '.[gpu]'")
    from workers.cuda.cupy_driver import CupyDriver

    return CupyDriver()


@pytest.fixture
def no_board() -> None:
    try:
        libcuda.library()
    except OSError:
        return
    pytest.skip("this machine has a driver; the tests marked gpu run there")


@pytest.mark.parametrize("call", CALLS)
def test_without_a_driver_every_call_says_so(driver: Driver, no_board: None, call: str) -> None:
    with pytest.raises(CudaError) as why:
        CALLS[call](driver)
    assert (why.value.code, why.value.api) == (35, "CUDA")


def test_the_seam_is_whole(driver: Driver) -> None:
    wanted = {name for name in vars(Driver) if not name.startswith("_")}
    assert wanted <= set(dir(driver))
    assert driver.label.startswith("CuPy ")
    assert Gemm(0, 0, 0, 1, 1, 1, 1, "f2").dtype == "f2"


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    try:
        return library.find()
    except Unavailable as why:
        pytest.skip(str(why))


def codes(nvrtc: Nvrtc, kernel: str, arch: str, kind: str = "Q4_0") -> code.Code:
    case = matvec_case(kernel=kernel.split("/")[1], kinds=(kind,), cols=256)
    (launch,) = registry.kernel(kernel).plan(case).launches[:1]
    flags = building.flags(Build.EXACT, arch)
    return code.compiled(launch, nvrtc, Target(arch), flags, library.compile_text)


def test_what_is_loaded_is_the_compilers_cubin_with_its_record(nvrtc: Nvrtc) -> None:
    made = codes(nvrtc, "matvec/block", "sm_86")
    assert made.path.read_bytes().startswith(b"\x7fELF")
    assert made.record is not None
    assert made.record.registers > 0
    assert not made.keeps_state
    assert "ENTRY" in source.text("matvec/block", "Q4_0")


def test_ptx_has_no_record(nvrtc: Nvrtc) -> None:
    made = codes(nvrtc, "matvec/block", "compute_86")
    assert b".target sm_86" in made.path.read_bytes()
    assert (made.record, made.keeps_state) == (None, False)


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("__device__ int counter; extern \"C\" __global__ void k(int *o) { o[0] = ++counter; }", True),
        ("__constant__ int c[2] = {1, 2}; extern \"C\" __global__ void k(int *o) { o[0] = c[o[1]]; }", False),
        ("extern \"C\" __global__ void k(int *o) { __shared__ int s[32]; s[threadIdx.x] = o[0]; "
         "__syncthreads(); o[0] = s[31 - threadIdx.x]; }", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_86", "compute_86"])
def test_memory_that_outlives_a_launch_is_seen_in_the_code(
    nvrtc: Nvrtc, text: str, keeps: bool, arch: str
) -> None:
    made = library.compile_text(text, "k.cu", (f"--gpu-architecture={arch}",))
    assert code.has_state(made.cubin) is keeps


@pytest.mark.parametrize(
    ("cuda", "extra", "toolkit"), [(12090, "cublas", "12.9.*"), (13000, "cublas13", "13.*")]
)
def test_where_cublas_is_away_the_extra_for_this_cuda_is_named(cuda: int, extra: str, toolkit: str) -> None:
    told = no_cublas(cuda, "Failure finding\n libcublasLt")
    assert told == (
        f"CuPy finds no cuBLAS (Failure finding libcublasLt); ./run pip install -e '.[{extra}]', "
        "or install a CUDA toolkit"
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    assert extras["optional-dependencies"][extra] == [
        f"cuda-toolkit[cublas]=={toolkit}; sys_platform == 'linux'"
    ]


def test_a_cuda_without_an_extra_is_told_of_the_toolkit() -> None:
    assert no_cublas(14000, "x") == "CuPy finds no cuBLAS (x); install a CUDA toolkit"
