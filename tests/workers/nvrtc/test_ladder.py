"""The ladder through NVIDIA's compiler: no header is needed, and f16x2 is refused where there is none."""

from __future__ import annotations

import pytest

from kernels import catalog, registry
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Seeded
from kernels.op import Workload
from tests.workers.cases import request_for
from workers.backends.nvrtc import BACKEND, arch_device
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.nvrtc.library import Nvrtc
from workers.runner import BUILT, run_case

RUNGS = [f"matvec/ladder_v{number}" for number in range(1, 6)]


@pytest.mark.parametrize("kernel_id", RUNGS)
def test_it_is_built_with_wide_loads_and_the_shared_bytes_it_declares(nvrtc: Nvrtc, kernel_id: str) -> None:
    kernel, shape = registry.kernel(kernel_id), catalog.parse_shape("9x2048", registry.op("matvec"))
    seeded = Seeded("ordinary", 1, FIXTURE_VERSION)
    case = catalog.case_of(kernel, ("Q4_0",), Workload(shape), seeded, Build.EXACT)
    (launch,) = kernel.plan(case).launches
    for arch in (nvrtc.archs[0], 75, nvrtc.archs[-1]):
        request = request_for(case, "nvrtc", device=arch_device(nvrtc, arch))
        evidence = run_case(request, BACKEND, ImageCache(FileStore()))
        if kernel_id.endswith("v5") and arch < 53:
            assert (evidence.verdict, evidence.launches) == ("SKIP", ())
            assert evidence.reason == f"f16x2 arithmetic needs sm_53; this is sm_{arch}"
            continue
        assert (evidence.verdict, evidence.reason) == ("PASS", BUILT)
        (record,) = evidence.builds
        assert record.static_shared_bytes == launch.static_shared_bytes
        assert record.spill_store_bytes == 0
        if record.loads:
            assert "128" in dict(record.loads)
