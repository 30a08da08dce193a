"""Kernels of a user's catalog through NVRTC, and cubins, which only a device can take."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import registry
from kernels.catalog import case_of
from kernels.declared import catalog as declared
from kernels.declared.cubin import arch
from kernels.declared.pack import Pack
from kernels.evidence import Verdict
from kernels.model import Build, Device, Seeded, Shape
from kernels.op import Workload
from tests.workers.catalogs import edited, ran
from workers.backend import Run
from workers.image_cache import ImageCache
from workers.nvrtc import headers, library
from workers.request import Request
from workers.runner import new_id, run_case

SMALL = Workload(Shape.of(rows=37, cols=768))

pytestmark = pytest.mark.usefixtures("nvrtc")


@pytest.mark.parametrize("build", [Build.EXACT, Build.DEFAULT, Build.DECLARED])
def test_templates_namespaces_and_includes_become_cubins(build):
    found = ran(edited("engine"), SMALL, "Q8_0", build, backend_name="nvrtc")
    assert (found.verdict, found.reason) == (Verdict.PASS, "built, not run")
    assert [one.entry for one in found.builds] == ["engine::quantize_x", "engine::matvec<34, 4>"]
    assert all(one.registers > 0 and one.cubin_bytes > 1000 for one in found.builds)
    told = found.flags.split()
    assert ("--use_fast_math" in told, "--ftz=false" in told) == (
        build is Build.DECLARED,
        build is not Build.DECLARED,
    )
    assert ("--maxrregcount=64" in told) is (build is Build.DECLARED)


def test_what_nvrtc_refuses_says_the_users_file_and_line():
    wrong = edited("engine", {"src/half.h": (("return __half2float", "return __half3float"),)})
    found = ran(wrong, SMALL, "Q8_0", backend_name="nvrtc")
    assert (found.verdict, found.reason[:13]) == (Verdict.REJECT, "src/half.h(6)")


def test_a_header_of_cudas_that_is_not_installed_is_no_fault_of_the_kernel(monkeypatch):
    monkeypatch.setattr(headers, "folder", lambda: "")
    wants = edited("engine")
    found = ran(wants, SMALL, "Q8_0", backend_name="nvrtc")
    assert found.verdict is Verdict.SKIP
    assert "includes cuda_fp16.h, which NVRTC doesn't bring; ./run pip install" in found.reason
    other = edited("engine", {"src/half.h": (("#include <cuda_fp16.h>", "#include <engine.h>"),)})
    assert ran(other, SMALL, "Q8_0", backend_name="nvrtc").verdict is Verdict.REJECT


def test_a_folder_of_cudas_headers_is_looked_into(monkeypatch, tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda_fp16.h").write_text("#define SEEN 1\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    headers.folder.cache_clear()
    try:
        text = "#include <cuda_fp16.h>\n__global__ void k(int *x) { *x = SEEN; }"
        made = library.compile_text(text, "k.cu", ("--gpu-architecture=sm_80",), "k")
    finally:
        headers.folder.cache_clear()
    assert made.lowered == "_Z1kPi"
    assert arch(made.cubin) == "sm_80"


@pytest.mark.parametrize("place", ["nvidia/cuda_runtime/include", "nvidia/cu13/include"])
def test_headers_of_both_generations_of_wheels_are_found(monkeypatch, tmp_path, place):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "cuda_fp16.h").write_text("")
    monkeypatch.setattr(headers.sys, "path", [str(tmp_path)])
    headers.folder.cache_clear()
    try:
        assert headers.folder() == str(tmp_path / place)
    finally:
        headers.folder.cache_clear()


def test_the_architecture_of_a_cubin_is_read_off_its_header(nvrtc):
    assert len(nvrtc.archs) > 10
    assert {number: arch(cubin(number)) for number in nvrtc.archs} == {n: f"sm_{n}" for n in nvrtc.archs}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"PK\x03\x04" + bytes(60)])
def test_what_is_no_cubin_has_no_architecture(content):
    assert arch(content) == ""


def cubin(number: int) -> bytes:
    text = 'extern "C" __global__ void rows_q8(const void *w, const float *x, float *out, int r, int b) {}'
    return library.compile_text(text, "k.cu", (f"--gpu-architecture=sm_{number}",)).cubin


def with_cubin(content: bytes) -> declared.Catalog:
    files = dict(edited("walk").pack.files)
    files["rows.toml"] = files["rows.toml"].replace(b"rows.cu::", b"rows.cubin::")
    return declared.load(Pack.of({**files, "rows.cubin": content}))


class Board:
    """A backend that would launch cubins, on a board of one architecture."""

    name = "board"
    orders = 1

    def __init__(self, sm: str) -> None:
        self.device = Device(sm, sm, "A board", sm, fingerprint=(("sm", sm),))
        self.asked = 0

    def devices(self) -> tuple[Device, ...]:
        return (self.device,)

    def run(self, plan, images, device, turn):
        self.asked += 1
        return Run({one.name: np.zeros(one.nbytes, np.uint8) for one in plan.buffers}, (), (), "", "")


def on_board(mine: declared.Catalog, sm: str) -> tuple[Verdict, str, int]:
    board = Board(sm)
    (kernel,) = mine.kernels.values()
    with registry.searching(mine.kernels):
        case = case_of(kernel, ("Q8_0",), SMALL, Seeded("ordinary", 0, 1), Build.EXACT)
        found = run_case(Request(new_id(), case, "board", board.device), board, ImageCache(None))
    return found.verdict, found.reason, board.asked


def test_a_cubin_needs_a_device_of_its_architecture():
    mine = with_cubin(cubin(80))
    here, nvrtc = (ran(mine, SMALL, "Q8_0", backend_name=name) for name in ("host", "nvrtc"))
    assert (here.verdict, nvrtc.verdict) == (Verdict.SKIP, Verdict.SKIP)
    assert (
        here.reason
        == f"rows.toml:21: rows.cubin is a cubin for sm_80: it needs a device, this is {here.device.name}"
    )
    assert (
        nvrtc.reason
        == "rows.toml:21: rows.cubin is a cubin for sm_80: there is nothing to compile, it needs a device"
    )
    refused = on_board(mine, "sm_86")
    assert refused == (
        Verdict.SKIP,
        "rows.toml:21: rows.cubin is a cubin for sm_80, this device is sm_86; build it for sm_86",
        0,
    )
    assert on_board(mine, "sm_80")[2] == 1  # it is given to the board


def test_a_cubin_is_part_of_the_source():
    first, other = (with_cubin(cubin(number)).kernels["matvec/rows"] for number in (80, 86))
    assert first.digest(("Q8_0",), Build.EXACT) != other.digest(("Q8_0",), Build.EXACT)
    assert first.text("Q8_0").startswith("// rows.cubin: a cubin for sm_80, SHA-256 ")


def test_what_is_no_cubin_is_a_mistake_with_its_line():
    with pytest.raises(
        declared.Misdeclared, match=r"rows.toml:\d+: rows.cubin is no cubin: it begins with b'PK"
    ):
        with_cubin(b"PK\x03\x04")
