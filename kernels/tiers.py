"""The tiers: which workloads of an op run together, from a minute's worth to what few machines hold."""

from __future__ import annotations

from enum import StrEnum

from kernels import models
from kernels.kind import Kind
from kernels.op import Op, Workload


class Tier(StrEnum):
    """Each op's own file has its workloads; `models` derives them from models.toml."""

    QUICK = "quick"  # what a plain submit runs
    FULL = "full"  # quick, and every edge of shape, layout and family
    MODELS = "models"  # shapes of real models; columns that no block divides are in it, and refused by name
    LIMITS = "limits"  # offsets past int32 and grid limits; SKIP where the memory isn't there


def workloads(op: Op, tier: Tier, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
    """The workloads of one tier, in its op's order."""
    if tier is Tier.MODELS:
        found = (workload for model in models.all_models() for workload in op.of_model(model))
        return tuple(dict.fromkeys(found))  # models share shapes
    if tier is Tier.LIMITS:
        return op.limits(kinds)
    return op.quick(kinds) if tier is Tier.QUICK else (*op.quick(kinds), *op.full(kinds))
