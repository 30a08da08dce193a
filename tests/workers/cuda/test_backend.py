"""The backend over a board that isn't there: what it uploads, passes, chains, guards, keeps and refuses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog, inputs, registry
from kernels.declared import catalog as declared
from kernels.declared.pack import Pack
from kernels.evidence import Verdict
from kernels.model import Build, Case, Plan, Seeded
from tests.workers.cases import matvec_case, request_for
from tests.workers.catalogs import edited
from tests.workers.fakes.cuda_driver import DEVICE, NVRTC, UUID, FakeDriver, compile_text, fake_cuda
from workers import effort
from workers.backend import BoardFault, CannotRun, KernelFault, Rejected, Run, Toolchain, Unavailable
from workers.backends import nvrtc
from workers.backends.cuda import Cuda
from workers.backends.twin import BACKEND as TWIN
from workers.benchmark import bench_case
from workers.cuda import code, memory
from workers.cuda.driver import Driver
from workers.effort import Effort
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.nvrtc.library import Compiled
from workers.request import KERNEL_PHASES
from workers.runner import run_case
from workers.timed import Timed

LARGE = matvec_case(rows=64, cols=32768)  # more than a MiB of weights


def plan_and_images(case: Case) -> tuple[Plan, dict[str, np.ndarray]]:
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    for image in images.values():
        image.flags.writeable = False
    return plan, images


def ran(driver: FakeDriver, case: Case, turns: int = 1) -> list[Run]:
    backend, (plan, images) = fake_cuda(driver), plan_and_images(case)
    return [backend.run(plan, images, DEVICE, turn) for turn in range(turns)]


def test_opening_and_compiling_are_phases_before_the_kernels_own() -> None:
    """A hang or a crash in them is none of the kernel's."""
    phases: list[str] = []
    opened_in, compiled_in = [], []
    driver = FakeDriver()

    def opening() -> Driver:
        opened_in.append(phases[-1])
        return driver

    def compiling(*given: str) -> Compiled:
        compiled_in.append(phases[-1])
        return compile_text(*given)

    backend = replace(fake_cuda(), open_driver=opening, compile_text=compiling)
    backend.find_nvrtc = lambda: replace(NVRTC, version=(12, 7))  # nothing of it is in the store
    request = request_for(matvec_case(), "cuda", device=DEVICE)
    found = run_case(request, backend, ImageCache(FileStore()), announce=phases.append)
    assert found.verdict is Verdict.PASS
    assert phases == ["inputs", "open", "compile", "launch", "compare"]
    assert (opened_in, compiled_in) == (["open"], ["compile"])
    assert not {"open", "compile"} & set(KERNEL_PHASES)
    assert driver.calls.index("entry") < driver.calls.index("allocate")
    assert {"open", "compile", "launch"} <= set(dict(found.timings_us))


def test_it_measures_and_says_what_built_it() -> None:
    backend = fake_cuda()
    assert isinstance(backend, Timed)
    assert isinstance(backend, Toolchain)
    label, flags = backend.toolchain(Build.EXACT)
    assert label == "NVRTC 12.9"
    assert "--fmad=false" in flags.split()
    assert "--ftz=false" in flags.split()


def test_one_upload_a_chain_of_launches_one_download() -> None:
    case = replace(matvec_case(), op="ffn", kernel="fused", kinds=("Q4_0",) * 3)
    kernel = next(k for k in registry.all_kernels().values() if k.op == "ffn")
    shape = registry.op("ffn").quick(tuple(registry.kind("Q4_0") for _ in range(3)))[0].shape
    case = replace(case, kernel=kernel.name, shape=shape)
    driver = FakeDriver()
    (run,) = ran(driver, case)
    assert len(run.launches) == 4
    said = "".join(
        {"upload": "u", "launch": "l", "wait": "w", "download": "d"}.get(c, "") for c in driver.calls
    )
    buffers = len(plan_and_images(case)[0].buffers)
    assert said == "u" * buffers + "llll" + "w" + "d" * buffers
    assert driver.memory == {}


def test_flags_are_those_of_the_compiling_backend_and_the_code_is_a_cubin() -> None:
    (run,) = ran(FakeDriver(), matvec_case())
    assert run.flags == " ".join(nvrtc.flags(Build.EXACT, "sm_86"))
    assert run.compiler == "NVRTC 12.9, cubin sm_86"
    assert [(record.arch, record.entry) for record in run.builds] == [("sm_86", run.launches[0].entry)]


def test_a_board_newer_than_the_compiler_gets_ptx_and_the_evidence_says_so() -> None:
    (run,) = ran(FakeDriver(sm=120), matvec_case())
    assert run.compiler == "NVRTC 12.9, PTX compute_90, JIT"
    assert "--gpu-architecture=compute_90" in run.flags
    assert run.builds == ()


def test_arguments_have_the_types_of_the_plan() -> None:
    driver = FakeDriver()
    ran(driver, matvec_case())
    plan, _ = plan_and_images(matvec_case())
    wanted = [getattr(arg, "dtype", "u8") for arg in plan.launches[0].args]
    assert [arg.dtype.str[1:] for arg in driver.passed[0]] == wanted


def test_a_write_past_a_buffer_is_told_with_its_distance() -> None:
    def write(driver: FakeDriver) -> None:
        out = list(driver.memory.values())[-1]
        out[8 - memory.GUARD_BYTES] ^= 1

    plan, _ = plan_and_images(matvec_case())
    (run,) = ran(FakeDriver(before_launch=write), matvec_case())
    name = plan.buffers[-1].name
    assert run.guards == (f"buffer {name!r}: 1 bytes written behind it, the nearest 9 bytes away",)


@pytest.mark.parametrize(("at", "line"), [(-1, "before it, the nearest 1"), (0, "behind it, the nearest 1")])
def test_both_guard_bands_are_looked_at(at: int, line: str) -> None:
    span = memory.Span(0, 10, 20, 10, 0)
    whole = memory.guarded(np.zeros(20, np.uint8), span)
    assert memory.broken("x", whole, span) == []
    whole[10 + at if at < 0 else 30] = 0
    assert memory.broken("x", whole, span) == [f"buffer 'x': 1 bytes written {line} bytes away"]


def test_turns_move_buffers_and_alignment_is_the_plans_and_no_more() -> None:
    driver = FakeDriver()
    ran(driver, matvec_case(), turns=4)
    plan, _ = plan_and_images(matvec_case())
    pointers = [int(args[0]) for args in driver.passed]
    align = plan.buffer("weights").align
    assert all(pointer % align == 0 and pointer % (2 * align) for pointer in pointers)
    fronts = {memory.front_bytes(align, turn) for turn in range(4)}
    assert len(fronts) == 4


def test_large_inputs_go_up_once_a_process_whatever_array_holds_them() -> None:
    driver = FakeDriver()
    backend = fake_cuda(driver)
    plan, images = plan_and_images(LARGE)
    backend.run(plan, images, DEVICE, 0)
    first = driver.calls.count("upload")
    backend.run(plan, {name: image.copy() for name, image in images.items()}, DEVICE, 0)
    assert driver.calls.count("upload") - first == len(plan.buffers) - 1
    other = {**images, "weights": np.roll(images["weights"], 18)}
    backend.run(plan, other, DEVICE, 0)
    assert driver.calls.count("upload") - first == 2 * len(plan.buffers) - 1


def test_an_input_that_was_written_to_is_seen_and_doesnt_stay() -> None:
    def spoil(driver: FakeDriver) -> None:
        block = max(driver.memory.values(), key=lambda one: one.nbytes)
        block[block.nbytes // 2] ^= 1

    driver = FakeDriver(before_launch=spoil)
    backend, (plan, images) = fake_cuda(driver), plan_and_images(LARGE)
    run = backend.run(plan, images, DEVICE, 0)
    assert not np.array_equal(run.images["weights"], images["weights"])
    driver.before_launch = lambda _: None
    again = backend.run(plan, images, DEVICE, 0)
    assert again.images["weights"] is images["weights"]
    assert np.array_equal(again.images["out"], TWIN.run(plan, images, DEVICE, 0).images["out"])


def test_what_stays_is_bounded_and_makes_room() -> None:
    driver = FakeDriver(capacity=5 << 20)
    backend = fake_cuda(driver)
    plan, images = plan_and_images(LARGE)
    for seed in range(3):
        backend.run(plan, {**images, "weights": np.roll(images["weights"], seed)}, DEVICE, 0)
        assert sum(block.nbytes for block in driver.memory.values()) <= (5 << 20) // memory.RESIDENT_SHARE


def test_a_case_that_doesnt_fit_is_refused_with_both_figures() -> None:
    driver = FakeDriver(capacity=1 << 20)
    with pytest.raises(
        CannotRun, match=r"needs 1\.\d MiB of device memory, 0\.9 MiB of the board's 1\.0 MiB"
    ):
        ran(driver, LARGE)
    assert "launch" not in driver.calls


def test_a_module_with_state_is_fresh_for_each_case_and_others_are_loaded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FakeDriver()
    backend, (plan, images) = fake_cuda(driver), plan_and_images(matvec_case())
    for turn in (0, 1, 0):
        backend.run(plan, images, DEVICE, turn)
    assert len(driver.loaded) == 1
    driver = FakeDriver()
    compile_plain = backend.compile_text
    keeping = replace(
        fake_cuda(driver),
        compile_text=lambda text, *rest: compile_plain(text + "\n__device__ int counter;\n", *rest),
    )
    keeping.find_nvrtc = lambda: replace(backend.find_nvrtc(), version=(12, 8))  # not the plain text's cubin
    for turn in (0, 1, 0):
        keeping.run(plan, images, DEVICE, turn)
    assert len(driver.loaded) == 2


def test_copies_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = {f"fresh-{pid}-0.cubin": tmp_path / f"fresh-{pid}-0.cubin" for pid in (gone.pid, os.getpid())}
    for path in (*names.values(), tmp_path / "fresh-start.cubin", tmp_path / "abc.cubin"):
        path.touch()
    code.sweep(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"fresh-{os.getpid()}-0.cubin", "fresh-start.cubin", "abc.cubin"}


def test_a_process_holds_one_board() -> None:
    backend, (plan, images) = fake_cuda(), plan_and_images(matvec_case())
    backend.run(plan, images, DEVICE, 0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == UUID
    with pytest.raises(BoardFault, match="needs its own"):
        backend.run(plan, images, replace(DEVICE, uuid="GPU-other"), 0)


@pytest.mark.parametrize("seen", [(), ("GPU-11111111-0000-0000-0000-000000000000",), (UUID, "GPU-2")])
def test_a_process_that_sees_other_boards_than_its_own_runs_nothing(seen: tuple[str, ...]) -> None:
    driver = FakeDriver(uuids=seen)
    with pytest.raises(BoardFault, match="should see board"):
        ran(driver, matvec_case())
    assert driver.calls == []


def test_a_masked_index_of_before_and_cudas_switches_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUPY_TF32", "1")
    ran(FakeDriver(), matvec_case())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == UUID
    assert "CUDA_DEVICE_ORDER" not in os.environ
    assert "CUPY_TF32" not in os.environ


@pytest.mark.parametrize(
    ("call", "code", "error"),
    [
        ("launch", 700, KernelFault), ("wait", 716, KernelFault), ("launch", 1, CannotRun),
        ("allocate", 2, CannotRun), ("entry", 209, Rejected), ("download", 214, BoardFault),
    ],
)  # fmt: skip
def test_codes_become_the_contracts_errors(call: str, code: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        ran(FakeDriver(fails={call: code}), matvec_case())


def test_nothing_is_left_allocated_when_a_launch_is_refused() -> None:
    driver = FakeDriver(fails={"launch": 1})
    with pytest.raises(CannotRun):
        ran(driver, matvec_case())
    assert driver.memory == {}


def test_after_a_poisoned_context_the_process_is_no_use() -> None:
    driver = FakeDriver(fails={"wait": 700})
    backend, (plan, images) = fake_cuda(driver), plan_and_images(matvec_case())
    with pytest.raises(KernelFault):
        backend.run(plan, images, DEVICE, 0)
    with pytest.raises(BoardFault, match="can't use the board any more"):
        backend.run(plan, images, DEVICE, 0)


def test_a_compiler_that_doesnt_fit_the_board_is_named() -> None:
    with pytest.raises(Unavailable, match="builds for sm_75 and newer, this board is sm_61"):
        ran(FakeDriver(sm=61), matvec_case())


def test_a_wrong_result_on_the_board_is_no_pass() -> None:
    def wrong(driver: FakeDriver) -> None:
        block = max(driver.memory.values(), key=lambda one: one.nbytes)
        block[memory.GUARD_BYTES + 40 : memory.GUARD_BYTES + 60] ^= 1

    found = run_case(request_for(matvec_case(rows=9, cols=96), "cuda", device=DEVICE), fake_cuda(
        FakeDriver(before_launch=wrong)), ImageCache(FileStore()))  # fmt: skip
    assert found.verdict is Verdict.FAIL


def test_gemm_is_cublas_and_never_a_text() -> None:
    kernel, op = registry.kernel("gemm/library"), registry.op("gemm")
    workload = op.quick((registry.kind("F16"),))[6]
    case = replace(
        matvec_case(), op="gemm", kernel="library", kinds=("F16",), shape=workload.shape,
        layout=workload.layout, x_dtype="f16", build=Build.DEFAULT,
    )  # fmt: skip
    driver = FakeDriver()
    (run,) = ran(driver, case)
    assert run.launches[0].library == run.compiler == "fake cuBLAS 12.9"
    assert "launch" not in driver.calls
    plan, images = plan_and_images(case)
    want = plan.buffer("out").view(TWIN.run(plan, images, DEVICE, 0).images["out"])
    assert np.allclose(plan.buffer("out").view(run.images["out"]), want, rtol=1e-4, atol=1e-4)
    assert kernel.id == "gemm/library"


def test_a_catalogs_cubin_runs_as_it_is() -> None:
    text = edited("walk")
    (kernel,) = text.kernels.values()
    made = bytearray(compile_text(kernel.text("Q8_0"), "rows.cu", ("--gpu-architecture=sm_86",)).cubin)
    made[48:52] = (86).to_bytes(4, "little")  # e_flags, where a cubin says what it is for
    files = dict(text.pack.files)
    files["rows.toml"] = files["rows.toml"].replace(b"rows.cu::", b"rows.cubin::")
    mine = declared.load(Pack.of({**files, "rows.cubin": bytes(made)}))
    (kernel,) = mine.kernels.values()
    workload = registry.op(kernel.op).quick((registry.kind("Q8_0"),))[0]
    seeded = Seeded("ordinary", 1, inputs.FIXTURE_VERSION)
    backend = replace(fake_cuda(), compile_text=no_compiler)
    with registry.searching(mine.kernels):
        case = catalog.case_of(kernel, ("Q8_0",), workload, seeded, Build.DEFAULT)
        found = run_case(request_for(case, "cuda", device=DEVICE), backend, ImageCache(FileStore()))
    assert (found.verdict, found.compiler) == (Verdict.PASS, "the catalog's own cubin"), found.reason
    assert found.launches[0].symbol_digest == hashlib.sha256(made).hexdigest()


def no_compiler(*args: object) -> Compiled:
    raise AssertionError("compiled")


def test_a_benchmark_is_made_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its yardsticks, the copy, the sum and the library's GEMM, run on the same board."""
    monkeypatch.setitem(effort.EFFORTS, "cuda", Effort(5, 0.0, 0.0, 4, 0, 2, 1 << 16))
    request = request_for(matvec_case(rows=9, cols=96), "cuda", device=DEVICE)
    found = bench_case(request, fake_cuda(FakeDriver(tick_us=1e9)), ImageCache(FileStore()))
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
    assert found.benchmark is not None
    assert found.benchmark.passes >= 1
    assert {mark.name for mark in found.benchmark.marks} >= {"copy", "read"}


def test_cupy_that_isnt_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(Unavailable, match=r"CuPy doesn't load .*'\.\[gpu\]'"):
        replace(fake_cuda(), open_driver=Cuda().open_driver).run(*plan_and_images(matvec_case()), DEVICE, 0)
