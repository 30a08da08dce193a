"""What `farm run` prints of one evidence line."""

from __future__ import annotations

from collections.abc import Iterator

from farm import build_text
from kernels.evidence import Comparison, Evidence, LaunchRecord, Worst
from kernels.model import Case


def text(evidence: Evidence) -> str:
    """Verdict and reason first, then the figures, the worst element, the launches and the digests."""
    lines = [head(evidence), *_body(evidence)]
    return "\n".join(line.rstrip() for line in lines)


def case_words(case: Case) -> str:
    """matvec/block Q4_K 64x4096 exact"""
    kind = "" if case.kind == "F32" and not case.kinds else f"{case.kind} "
    return f"{case.op}/{case.kernel} {kind}{case.shape} {case.family} {case.build}"


def scalar_words(case: Case) -> str:
    """eps 1e-05; the digits that tell float32 values apart"""
    return ", ".join(f"{name} {value:.9g}" for name, value in case.scalars)


def head(evidence: Evidence) -> str:
    """Verdict, case, place and reason in one line."""
    where = f"{evidence.backend} ({evidence.device.device_class})"
    reason = f": {evidence.reason}" if evidence.reason else ""
    return f"{evidence.verdict} {case_words(evidence.case)} on {where}{reason}"


def _body(evidence: Evidence) -> Iterator[str]:
    if evidence.rule_verdict:
        yield _row("rule", f"{evidence.rule_verdict} by {evidence.rule}, which decides this run")
    if evidence.comparison:
        yield from _figures(evidence.comparison, any(launch.library for launch in evidence.launches))
    if evidence.case.scalars:
        yield _row("scalars", scalar_words(evidence.case))
    for number, launch in enumerate(evidence.launches):
        yield _row(f"launch {number}", _launch(launch))
    for build in evidence.builds:
        for number, line in enumerate(build_text.lines(build)):
            yield _row("" if number else "build", line)
    if evidence.compiler:
        yield _row("compiler", f"{evidence.compiler} {evidence.flags}")
    if evidence.substitutes:
        yield _row("host twins", ", ".join(evidence.substitutes))
    yield _row("repeats", str(evidence.repeats))
    for name in ("source", "inputs", "output"):
        yield _row(f"{name} digest", getattr(evidence, f"{name}_digest") or "none")
    yield _row("case", evidence.case_id)


def _figures(found: Comparison, by_library: bool) -> Iterator[str]:
    yield _row("positions", f"{found.positions:,} judged by {found.judge}, {found.bad:,} outside the bound")
    yield _row("bound ratio", f"{found.bound_ratio:.4g}  (1 is the edge)")
    against = "the oracle: there is no twin" if found.twinless else "the twin"
    yield _row("relative ratio", f"{found.relative_ratio:.4g}  against {against}")
    yield _row("nmse", f"{found.nmse:.4g}")
    if found.float_nmse is not None:
        yield _row("float nmse", f"{found.float_nmse:.4g}  against the activations as given, not quantized")
    yield _row("NaN positions", "equal" if found.nan_positions_equal else "differ")
    if not found.twinless:
        bits = "equal to the twin's" if found.bit_exact else "differ from the twin's"
        bits += f", {found.explained}" if found.explained else ""
        yield _row("bits", f"{bits}; a library adds in an order of its own" if by_library else bits)
    if found.worst:
        yield _row("worst", _worst(found.worst))
        if found.worst.block:
            yield _row("block", found.worst.block)


def _worst(worst: Worst) -> str:
    index = ", ".join(map(str, worst.index))
    values = f"got {worst.got!r}, want {worst.want!r}, twin {worst.twin!r}, limit {worst.limit:.4g}"
    return f"{worst.buffer}[{index}] of launch {worst.launch} ({worst.kernel}): {values}"


def _launch(launch: LaunchRecord) -> str:
    if launch.library:
        return f"{launch.entry} by {launch.library}, {launch.elapsed_us:,.0f} us"
    grid, block = ("x".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
    shared = f"{launch.static_shared_bytes}+{launch.dynamic_shared_bytes} shared bytes"
    measured = f"{launch.elapsed_us:,.0f} us, symbol {launch.symbol_digest[:16]}"
    return f"{launch.entry} grid {grid} block {block} {shared}, {measured}"


def _row(name: str, value: str) -> str:
    return f"  {name:<15} {value}"
