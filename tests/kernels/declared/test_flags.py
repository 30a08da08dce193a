"""Compiler flags: what they become elsewhere, and flags that are refused."""

from __future__ import annotations

import pytest

from kernels.declared.flags import WORDS, for_host, for_nvrtc, unknown_flag


@pytest.mark.parametrize(
    ("flag", "host", "nvrtc"),
    [
        ("--use_fast_math", ("-ffp-contract=fast", "-freciprocal-math"), ("--use_fast_math",)),
        ("-use_fast_math", ("-ffp-contract=fast", "-freciprocal-math"), ("--use_fast_math",)),
        ("-ffast-math", ("-ffp-contract=fast", "-freciprocal-math"), ("--use_fast_math",)),
        ("-fmad=false", ("-ffp-contract=off",), ("--fmad=false",)),
        ("--maxrregcount=64", (), ("--maxrregcount=64",)),
        ("--ftz=true", (), ("--ftz=true",)),
        ("-O3", (), ()),
    ],
)
def test_a_flag_becomes_what_each_compiler_knows(flag, host, nvrtc):
    assert (unknown_flag(flag), for_host([flag]), for_nvrtc([flag])) == ("", host, nvrtc)


@pytest.mark.parametrize(
    "flag", ["-Xptxas", "--maxrregcount", "--use_fast_math -g", "-DX=1", "-include=/etc/passwd", ""]
)
def test_any_other_flag_is_refused(flag):
    assert unknown_flag(flag).startswith(f"no compiler flag that the farm can hand on named {flag!r}")


def test_flags_that_are_named_in_messages_are_known():
    assert [flag for flag in WORDS if unknown_flag(flag)] == []
