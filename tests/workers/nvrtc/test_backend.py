"""The backend `nvrtc`: what it says without the compiler, and what it makes of texts with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import codec, registry, source
from kernels.built import BuildRecord
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Case, Options, Plan, Shape
from tests.workers.cases import matvec_case, request_for
from workers import backend
from workers.backend import Rejected, Unavailable
from workers.backends.nvrtc import BACKEND, arch_device, build, flags
from workers.boards import wanted_backends
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.nvrtc import cubin, disassembler, library, readings
from workers.nvrtc.disassembler import Instruction
from workers.nvrtc.library import Nvrtc, compile_text
from workers.nvrtc.readings import Code
from workers.nvrtc.resources import of_entry
from workers.nvrtc.sass import Reading
from workers.nvrtc.store import Store
from workers.runner import BUILT, run_case

KERNEL = 'extern "C" __global__ void k({}) {{ {} }}'
F16X2 = KERNEL.format(
    "unsigned *o", 'asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(o[0]) : "r"(o[1]), "r"(o[2]), "r"(o[3]));'
)
SHARED_64_KB = KERNEL.format(
    "float *o",
    "__shared__ float s[16384]; s[threadIdx.x] = o[0]; __syncthreads(); o[threadIdx.x] = s[o[1] > 0];",
)


NOTHING_ELSE = (Instruction("EXIT", ()),)


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    library.find.cache_clear()
    for binding in ("cuda.bindings", "cupy_backends.cuda.libs"):
        monkeypatch.setitem(sys.modules, binding, None)
    yield
    library.find.cache_clear()


def test_without_the_extra_one_line_names_it(without_the_extra: None) -> None:
    with pytest.raises(Unavailable) as why:
        BACKEND.devices()
    assert str(why.value) == (
        "nvrtc is unavailable because NVIDIA's compiler isn't installed; ./run pip install -e '.[nvrtc]'"
    )


def test_a_case_without_the_extra_is_the_farms_error(without_the_extra: None) -> None:
    evidence = run_case(request_for(matvec_case(), "nvrtc"), BACKEND, ImageCache(FileStore()))
    assert evidence.verdict is Verdict.ERROR
    assert "'.[nvrtc]'" in evidence.reason


def test_it_executes_nothing_and_is_never_a_default() -> None:
    assert not backend.executes(BACKEND)
    assert "nvrtc" not in wanted_backends(())
    assert wanted_backends(("nvrtc",)) == ("nvrtc",)


@pytest.mark.parametrize("build", [Build.EXACT, Build.DEFAULT])
def test_flags_name_the_arch_and_never_flush_or_guess(build: Build) -> None:
    told = flags(build, "sm_86")
    assert told[0] == "--gpu-architecture=sm_86"
    assert {"--ftz=false", "--prec-div=true", "--prec-sqrt=true"} <= set(told)
    assert ("--fmad=false" in told, "--fmad=true" in told) == (build is Build.EXACT, build is Build.DEFAULT)
    assert not any("fast" in flag for flag in told)


def test_other_builds_are_refused_by_name() -> None:
    with pytest.raises(Rejected, match="no build 'check'; there are exact, default, declared"):
        flags(Build.CHECK, "sm_86")


def test_declared_flags_take_the_place_of_the_farms_own() -> None:
    told = flags(Build.DECLARED, "sm_86", Options("c++20", ("-fmad=false", "--maxrregcount=64")))
    assert [flag for flag in told if "fmad" in flag or "std" in flag] == ["--fmad=false", "--std=c++20"]
    assert {"--maxrregcount=64", "--ftz=false"} <= set(told)
    fast = flags(Build.DECLARED, "sm_86", Options(flags=("--use_fast_math",)))
    assert "--use_fast_math" in fast
    assert not any(flag.startswith(("--ftz", "--fmad", "--prec")) for flag in fast)


def test_an_arch_is_its_own_class_and_slug() -> None:
    device = arch_device(Nvrtc((12, 9), (86,)), 86)
    assert (device.slug, device.device_class, device.name) == ("sm_86", "sm_86", "sm_86 (NVRTC 12.9)")
    assert dict(device.fingerprint) == {"sm": "sm_86", "compiler": "NVRTC 12.9"}


def test_devices_are_all_that_the_compiler_knows(nvrtc: Nvrtc) -> None:
    assert [device.slug for device in BACKEND.devices()] == [f"sm_{arch}" for arch in nvrtc.archs]
    assert {75, 86, 90} <= set(nvrtc.archs)


def evidence_of(case: Case, arch: int, nvrtc: Nvrtc) -> Evidence:
    request = request_for(case, "nvrtc", device=arch_device(nvrtc, arch))
    return run_case(request, BACKEND, ImageCache(FileStore()))


def record_of(case: Case, arch: int, nvrtc: Nvrtc) -> BuildRecord:
    (record,) = evidence_of(case, arch, nvrtc).builds
    return record


def test_evidence_of_a_build_compares_nothing(nvrtc: Nvrtc) -> None:
    evidence = evidence_of(matvec_case(), 86, nvrtc)
    assert (evidence.verdict, evidence.reason, evidence.comparison) == (Verdict.PASS, BUILT, None)
    assert (evidence.inputs_digest, evidence.output_digest, evidence.launches) == ("", "", ())
    assert evidence.compiler == nvrtc.label
    assert "--gpu-architecture=sm_86" in evidence.flags
    assert len(evidence.build_digest) == 64
    assert codec.decode(Evidence, codec.encode(evidence)) == evidence


def test_record_has_what_the_kernel_declares(nvrtc: Nvrtc) -> None:
    record = record_of(matvec_case(), 86, nvrtc)
    assert (record.kernel, record.kind, record.entry) == ("matvec/block", "Q4_0", "matvec_block_q4_0")
    assert (record.threads, record.dynamic_shared_bytes, record.static_shared_bytes) == (256, 1024, 0)
    assert 16 <= record.registers <= 255
    assert record.blocks_per_sm >= 1
    assert len(record.cubin_digest) == 64
    assert "Used" in record.log


def test_an_sm_that_holds_one_block_of_some_case_is_marked(nvrtc: Nvrtc) -> None:
    case = matvec_case(kernel="wide", kinds=("F32",), rows=9, cols=160)
    record = record_of(case, 75, nvrtc)
    assert (record.dynamic_shared_bytes, record.most_dynamic_shared_bytes) == (21504, 36864)
    assert (record.blocks_per_sm, record.least_blocks_per_sm) == (3, 1)
    assert "one-block" in record.notes
    record = record_of(matvec_case(), 75, nvrtc)
    assert (record.most_dynamic_shared_bytes, record.least_blocks_per_sm, record.notes) == (0, 0, ())


def test_static_shared_memory_is_the_plans(nvrtc: Nvrtc) -> None:
    case = matvec_case()
    mul_mm = replace(case, op="mul_mm", kernel="reference", shape=Shape.of(rows=64, cols=64, batch=8))
    launch = registry.kernel("mul_mm/reference").plan(mul_mm).launches[0]
    record = build(launch, nvrtc, "sm_86", flags(Build.EXACT, "sm_86"))
    assert record.static_shared_bytes == launch.static_shared_bytes == 24576


def test_an_ffn_has_a_record_per_text(nvrtc: Nvrtc) -> None:
    op = registry.op("ffn")
    kinds = ("Q4_0", "Q4_0", "Q8_0")
    shape = op.quick(tuple(map(registry.kind, kinds)))[0].shape
    evidence = evidence_of(
        replace(matvec_case(), op="ffn", kinds=kinds, shape=shape, scalars=op.scalars_of(kinds)), 86, nvrtc
    )
    assert {(record.kernel, record.kind) for record in evidence.builds} == {
        ("matvec/block", "Q4_0"), ("silu_mul/flat", ""), ("matvec/block", "Q8_0"),
    }  # fmt: skip


def test_builds_differ_in_code_and_repeats_do_not(nvrtc: Nvrtc, state: Path, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    exact = record_of(matvec_case(), 86, nvrtc)
    default = record_of(matvec_case(build=Build.DEFAULT), 86, nvrtc)
    assert exact.cubin_digest != default.cubin_digest
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "another"))
    assert record_of(matvec_case(), 86, nvrtc) == exact


def test_comments_change_no_digest(nvrtc: Nvrtc) -> None:
    told = flags(Build.EXACT, "sm_86")
    text = source.text("matvec/coalesced", "Q4_0")
    plain = compile_text(text, "a.cu", told)
    again = compile_text(f"// a comment\n\n{text}", "b.cu", told)
    wrong = compile_text(text.replace("- 8)", "- 7)"), "a.cu", told)
    assert "- 8)" in text
    assert cubin.digest(plain.cubin) == cubin.digest(again.cubin) != cubin.digest(wrong.cubin)


def test_a_compiled_text_is_not_compiled_again(nvrtc: Nvrtc, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record_of(matvec_case(), 86, nvrtc)
    monkeypatch.setattr(library, "compile_text", None)
    assert record_of(matvec_case(rows=9), 86, nvrtc) == first
    assert evidence_of(matvec_case(), 80, nvrtc).verdict is Verdict.ERROR  # that one has to be compiled


def of_text(text: str, arch: int, nvrtc: Nvrtc, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    """The evidence of a plan whose text is another one, with an entry `k`."""
    if arch not in nvrtc.archs:
        pytest.skip(f"{nvrtc.label} doesn't know sm_{arch}")
    kernel = registry.kernel("matvec/block")
    plan: Plan = kernel.plan(matvec_case())
    named = replace(plan, launches=tuple(replace(launch, entry="k") for launch in plan.launches))
    monkeypatch.setattr(type(kernel), "plan", lambda self, case: named)
    monkeypatch.setattr(source, "text", lambda kernel_id, kind, unit: text)
    return evidence_of(matvec_case(), arch, nvrtc)


@pytest.mark.parametrize(
    ("text", "arch", "verdict", "reason"),
    [
        (F16X2, 52, Verdict.REJECT, "requires .target sm_53 or higher"),
        (F16X2, 53, Verdict.PASS, BUILT),
        (F16X2, 75, Verdict.PASS, BUILT),
        (SHARED_64_KB, 86, Verdict.REJECT, "uses too much shared data (0x10000 bytes, 0xc000 max)"),
        (SHARED_64_KB, 120, Verdict.REJECT, "uses too much shared data"),
        (
            KERNEL.format("int *o", "o[0] = x;"),
            86,
            Verdict.REJECT,
            'k.cu(1): error: identifier "x" is undefined',
        ),
        (KERNEL.format("int *o", "").replace(" k(", " other("), 86, Verdict.ERROR, "says nothing of k"),
    ],
)
def test_a_refusal_is_reject_with_the_compilers_own_line(
    text: str, arch: int, verdict: Verdict, reason: str, nvrtc: Nvrtc, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = of_text(text, arch, nvrtc, monkeypatch)
    assert (evidence.verdict, reason in evidence.reason) == (verdict, True), evidence.reason
    assert evidence.builds == () or verdict is Verdict.PASS
    assert (evidence.compiler, "--fmad=false" in evidence.flags) == (nvrtc.label, True)


@pytest.mark.parametrize("text", [F16X2, SHARED_64_KB])
def test_what_is_refused_as_code_is_accepted_as_ptx(text: str, nvrtc: Nvrtc) -> None:
    virtual = "compute_52" if 52 in nvrtc.archs else "compute_75"
    assert compile_text(text, "k.cu", (f"--gpu-architecture={virtual}",)).cubin.startswith(b"//")


def test_spills_show(nvrtc: Nvrtc) -> None:
    body = "float v[200]; for (int i = 0; i < 200; ++i) v[i] = o[i * 7]; __syncthreads();"
    body += (
        " for (int r = 0; r < 9; ++r) for (int i = 0; i < 200; ++i) v[i] = v[i] * v[(i * 3 + 1) % 200] + r;"
    )
    body += " for (int i = 0; i < 200; ++i) o[i] = v[i];"
    text = KERNEL.replace("void k", "void __launch_bounds__(1024) k").format("float *o", body)
    takes = of_entry(compile_text(text, "k.cu", flags(Build.EXACT, "sm_86")).log, "k")
    assert takes.registers <= 64
    assert takes.spill_store_bytes > 0
    assert takes.spill_load_bytes > 0


def test_disassembly_shows_loads_or_says_why_not(nvrtc: Nvrtc) -> None:
    record = _q4_k(86, nvrtc)
    if not disassembler.label():
        assert record.disassembler == disassembler.LACKING
        assert (record.instructions, record.loads, record.instructions_per_weight) == (None, (), None)
        return
    assert record.disassembler == disassembler.label()
    assert dict(record.loads)["32"] >= 8 + 1  # eight activations and the quants, one word a lane
    assert 8 <= record.instructions_per_weight <= 25


def _q4_k(arch: int, nvrtc: Nvrtc) -> BuildRecord:
    return record_of(matvec_case(kernel="coalesced", kinds=("Q4_K",), cols=256), arch, nvrtc)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many codes each start of a disassembler was given; it finds one instruction in each."""
    given: list[int] = []

    def listings(codes: Sequence[bytes], arch: str) -> tuple[tuple[Instruction, ...], ...]:
        given.append(len(codes))
        return (NOTHING_ELSE,) * len(codes)

    monkeypatch.setattr(disassembler, "label", lambda: "a disassembler")
    monkeypatch.setattr(disassembler, "listings", listings)
    return given


def test_code_that_two_architectures_share_is_read_once(nvrtc: Nvrtc, starts: list[int]) -> None:
    records = [_q4_k(arch, nvrtc) for arch in (80, 86, 89)]
    assert [record.cubin_digest == records[2].cubin_digest for record in records] == [False, True, True]
    assert starts == [2, 2]  # both builds at a time
    assert [record.instructions for record in records] == [1, 1, 1]


def test_texts_of_one_kernel_are_read_together_the_more_there_are(nvrtc: Nvrtc, starts: list[int]) -> None:
    kinds = list(registry.kinds())
    for kind in kinds:
        record = record_of(matvec_case(kinds=(kind,), cols=256), 86, nvrtc)
        assert (record.kind, record.instructions) == (kind, 1)
    assert starts == [2, 4, 8, 16, 26]
    assert sum(starts) == 2 * len(kinds)


def test_a_reading_is_the_same_alone_and_among_others(nvrtc: Nvrtc, tmp_path: Path) -> None:
    if not disassembler.label():
        pytest.skip(disassembler.LACKING)
    told = flags(Build.DEFAULT, "sm_86")
    codes = [
        Code.of(
            compile_text(source.text("matvec/coalesced", kind), "k.cu", told),
            f"matvec_coalesced_{kind.lower()}",
        )
        for kind in ("Q4_0", "Q4_K")
    ]
    together, alone = Store(tmp_path / "together"), Store(tmp_path / "alone")
    readings.reading(together, codes[0], "sm_86", codes[1:])
    assert together.has(codes[1].key())
    assert not alone.has(codes[1].key())
    found, by = readings.reading(alone, codes[1], "sm_86")
    assert readings.reading(together, codes[1], "sm_86") == (found, by)
    assert by == disassembler.label()
    assert found.per_product


def test_what_cannot_be_read_takes_nothing_from_the_first(nvrtc: Nvrtc, tmp_path: Path) -> None:
    if not disassembler.label():
        pytest.skip(disassembler.LACKING)
    made = compile_text(source.text("matvec/block", "Q4_0"), "k.cu", flags(Build.DEFAULT, "sm_86"))
    good, bad = Code.of(made, "matvec_block_q4_0"), Code.of(made, "another")
    assert readings.reading(Store(tmp_path), bad, "sm_86") == (
        Reading(None), f"a cubin without code of {bad.entry}",
    )  # fmt: skip
    assert readings.reading(Store(tmp_path), good, "sm_86", [bad])[0].instructions


def test_an_arch_that_the_disassembler_dropped_says_so(nvrtc: Nvrtc) -> None:
    if 61 not in nvrtc.archs or not disassembler.label():
        pytest.skip("needs NVRTC 12 and a disassembler")
    record = _q4_k(61, nvrtc)
    assert (record.instructions is None) == (record.disassembler != disassembler.label())
    assert record.disassembler.startswith(disassembler.label())


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Texts and digests are made anew here and behind the test."""
    cached = (source._text, source._text_digest, source._digest)
    yield
    for made in cached:
        made.cache_clear()


def with_cuda(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a kind another CUDA text."""
    monkeypatch.setitem(registry.kinds(), name, replace(registry.kind(name), cuda=text))
    source._text.cache_clear()
    source._text_digest.cache_clear()
    source._digest.cache_clear()


def test_another_text_of_the_same_code_has_another_source_and_the_same_build(
    nvrtc: Nvrtc, forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = registry.kind("Q4_0").cuda
    before = evidence_of(matvec_case(), 86, nvrtc)
    with_cuda("Q4_0", cuda.replace("half_at(block + AT_D)", "half_at(AT_D + block)"), monkeypatch)
    same = evidence_of(matvec_case(), 86, nvrtc)
    assert same.source_digest != before.source_digest
    assert same.build_digest == before.build_digest
    with_cuda("Q4_0", cuda.replace("- 8)", "- 7)"), monkeypatch)
    assert evidence_of(matvec_case(), 86, nvrtc).build_digest != before.build_digest
