"""The runtime on the other processor: built by a cross compiler, run by an emulator, the twin's bits."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernels import inputs, registry, source
from kernels.exp32 import exp32
from kernels.model import Build, Case, Seeded, Shape
from kernels.op import Step
from workers.exam import exam_catalog
from workers.host import compiler

CROSS, EMULATOR, LIBRARIES = "aarch64-linux-gnu-g++", "qemu-aarch64", Path("/usr/aarch64-linux-gnu")
DRIVER = Path(__file__).parent / "drive.cpp"
ORDINARY = Seeded("ordinary", 0, inputs.FIXTURE_VERSION)

pytestmark = pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(EMULATOR) and LIBRARIES.exists()),
    reason=f"needs {CROSS} and {EMULATOR}",
)


@pytest.fixture
def cross(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cross compiler as the machine's; `native` means the host's processor, so it is left out."""
    monkeypatch.setenv("CXX", CROSS)
    monkeypatch.setattr(compiler.Compiler, "native", "-march=armv8-a")


def emulate(folder: Path, text: Path, words: list[object]) -> str:
    driver = folder / "drive"
    build = [CROSS, "-w", f"-I{compiler.RUNTIME}", str(DRIVER), "-ldl", "-o", str(driver)]
    subprocess.run(build, check=True)
    run = [EMULATOR, "-L", str(LIBRARIES), str(driver), str(text), *map(str, words)]
    return subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize("ucontext", [False, True], ids=["inline", "ucontext"])
@pytest.mark.parametrize("name", ["coalesced", "block"])
@pytest.mark.parametrize("build", ["exact", "check"])
def test_a_matvec_gives_the_twins_bits_and_names_its_fault(
    cross: None, tmp_path: Path, build: str, name: str, ucontext: bool
) -> None:
    shape = Shape.of(rows=37, cols=1280)
    case = Case("matvec", name, ("Q4_K",), shape, ORDINARY, ORDINARY, Build.EXACT)
    kernel = registry.launch_kernel(f"matvec/{name}")
    plan = kernel.plan(case)
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    for file, buffer in (("w.bin", "weights"), ("x.bin", "x")):
        (tmp_path / file).write_bytes(images[buffer].tobytes())
    (launch,) = plan.launches
    text = compiler.build(source.text(kernel.id, "Q4_K"), "k.cu", build, tmp_path, ucontext=ucontext)
    row_bytes = plan.buffer("weights").strides[0]
    words = [37, 1280, row_bytes, launch.grid[0], launch.dynamic_shared_bytes]
    said = emulate(tmp_path, text, words).splitlines()
    arrays = {"weights": plan.buffer("weights").view(images["weights"]), "x": images["x"].view("<f4")}
    twin = kernel.twin(Step(arrays, {}, registry.kind("Q4_K"), "ordinary", True)).tobytes()
    assert (tmp_path / "y0.bin").read_bytes() == (tmp_path / "y1.bin").read_bytes() == twin
    assert said[:2] == ["turn 0: failed 0 kind 0", "turn 1: failed 0 kind 0"]
    assert said[2].startswith("turn 2: failed 1 kind 1, thread (")


@pytest.mark.parametrize("ucontext", [False, True], ids=["inline", "ucontext"])
def test_the_exams_kernel_that_fills_every_register_gives_its_bits(
    cross: None, tmp_path: Path, ucontext: bool
) -> None:
    """Its arguments are a matvec's, as far as the driver goes: two inputs, the output and its length."""
    random = np.random.default_rng(1)
    gate, up = random.standard_normal((2, 1000), np.float32)
    (tmp_path / "w.bin").write_bytes(gate.tobytes())
    (tmp_path / "x.bin").write_bytes(up.tobytes())
    content = dict(exam_catalog().pack.files)["pressed.cu"].decode()
    text = compiler.build(content, "k.cu", "exact", tmp_path, ucontext=ucontext)
    emulate(tmp_path, text, [1000, 0, 0, 4, 0])
    want = (gate / (np.float32(1) + exp32(-gate)) * up).tobytes()
    assert (tmp_path / "y0.bin").read_bytes() == (tmp_path / "y1.bin").read_bytes() == want
