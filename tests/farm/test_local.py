"""`farm submit --local` and `farm resume --local`, end to end in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import Result

from db.campaign import campaign_row
from db.job import jobs_of
from db.session import Database, open_existing
from db.tables import planned
from farm.cluster import ray_home
from farm.coordinator import Coordinator
from farm.local import BoardThread
from kernels import registry
from kernels.evidence import Verdict
from kernels.model import Case, FromFile
from tests.farm.conftest import DEVICE
from tests.farm.grids import GPU
from tests.farm.lines import database_with, line_of
from workers import backend as backends
from workers.backend import Unavailable
from workers.gguf_file import read_gguf
from workers.spool import Spool

DATA = Path(__file__).parents[1] / "data"
ONE_CELL = ("--kernel", "matvec/block", "--kind", "Q4_0", "--local", "--json")
Farm = Callable[..., Result]


def missing(backend: str) -> str:
    try:
        backends.backend(backend).devices()
    except Unavailable as error:
        return str(error)
    return ""


def figures(result: Result) -> dict[str, object]:
    assert result.exit_code in (0, 3), result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("backend", ["twin", "host"])
def test_a_campaign_ends_with_a_verdict_for_every_job(backend: str, farm: Farm) -> None:
    if reason := missing(backend):
        pytest.skip(reason)
    result = farm("submit", *ONE_CELL, "--backend", backend)
    assert result.exit_code == 0
    found = figures(result)
    assert found["closed"] is True
    assert found["verdicts"] == {"PASS": found["jobs"]}
    assert int(str(found["jobs"])) >= 16


def test_the_matrix_and_a_line_are_shown_at_the_end(farm: Farm) -> None:
    result = farm("submit", *ONE_CELL[:-1], "--backend", "twin")
    assert result.exit_code == 0
    assert "campaign 1:" in result.stdout.splitlines()[-1]
    assert "PASS" in result.stdout


def test_several_tiers_run_together_and_refusals_end_as_skip(farm: Farm) -> None:
    words = ("--kernel", "matvec/coalesced", "--kind", "Q4_K", "--family", "onehot", "--build", "exact")
    tiers = ("--tier", "full", "--tier", "quick")
    result = farm("submit", *words, *tiers, "--backend", "twin", "--local", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdicts"] == {"PASS": 17}
    words = ("--kernel", "matvec/coalesced", "--kind", "Q4_K", "--shape", "9x96", "--shape", "9x1152")
    result = farm("submit", *words, "--build", "exact", "--backend", "twin", "--local", "--json")
    assert json.loads(result.stdout)["verdicts"] == {"SKIP": 2}


def test_a_bad_verdict_exits_3(farm: Farm) -> None:
    if reason := missing("host"):
        pytest.skip(reason)
    # A build that contracts has other bits than the twin: right by the bound, wrong by the rule `exact`.
    words = (
        "--kernel",
        "mul_mm/reference",
        "--kind",
        "Q4_0",
        "--shape",
        "37x768x5",
        "--build",
        "default",
        "--local",
        "--json",
    )
    assert farm("submit", *words).exit_code == 0
    result = farm("submit", *words, "--rule", "exact")
    assert result.exit_code == 3
    assert figures(result)["verdicts"] == {"FAIL": 1}


def test_check_has_cells_of_its_own(farm: Farm) -> None:
    if reason := missing("host"):
        pytest.skip(reason)
    result = farm("submit", *ONE_CELL, "--shape", "9x160", "--check")
    assert (result.exit_code, figures(result)["verdicts"]) == (0, {"PASS": 1})
    shown = json.loads(farm("export", "--format", "json").stdout)
    assert {cell["build"] for cell in shown["cells"] if cell["verdict"]} == {"check"}


def test_only_never_leaves_nothing_after_a_run(farm: Farm) -> None:
    words = (*ONE_CELL, "--backend", "twin")
    assert farm("submit", *words, "--only", "never").exit_code == 0
    again = farm("submit", *words, "--only", "never")
    assert again.exit_code == 1
    assert "none of the" in again.stderr
    assert "never" in again.stderr


@pytest.mark.parametrize(
    ("glob", "only", "cases"),
    [
        ("rtx-3060", "never", 1),  # the other kernel's
        ("rtx-3060", "stale", 1),
        ("rtx-4090", "never", 2),
        ("rtx-4090", "stale", 0),
        ("*", "never", 1),
    ],
)
def test_a_campaign_for_later_goes_by_what_the_boards_that_it_names_ran(
    farm: Farm, tmp_path: Path, glob: str, only: str, cases: int
) -> None:
    """No board of a class may be here yet: `farm plan` prints such a submit for what it rents."""
    old = replace(line_of(device=GPU, source="0" * 64), backend="cuda")
    words = ("--kernel", "matvec/block", "--kernel", "matvec/coalesced", "--kind", "Q4_0", "--shape", "3x256",
             "--family", "ordinary", "--build", "exact", "--backend", "cuda")  # fmt: skip
    url = database_with(tmp_path, [old])
    stored = farm("submit", *words, "--db", url, "--device", glob, "--only", only, "--detach", "--json")
    if not cases:
        assert (stored.exit_code, "no job: none of the 2 cases" in stored.stderr) == (1, True)
        return
    assert stored.exit_code == 0, stored.stderr
    with open_existing(url).reading() as s:
        assert s.execute(sa.select(sa.func.count()).select_from(planned)).scalar() == cases


def test_a_files_own_weights_pass_and_the_rest_is_listed(farm: Farm, tmp_path: Path) -> None:
    result = farm("submit", "--gguf", str(DATA / "tiny-mixed.gguf"), "--backend", "twin", "--local", "--json")
    assert result.exit_code == 0
    found = figures(result)
    listed = {item["name"] for item in found["listed"]}
    with opened(tmp_path).reading() as s:
        jobs = jobs_of(s, 1)
    ran = {op: {names_of(job.case) for job in jobs if job.case.op == op} for op in ("matvec", *LAYERS)}
    matrices = (t for t in read_gguf(DATA / "tiny-mixed.gguf") if t.dims > 1)
    known = {t.name for t in matrices if t.kind in registry.kinds()}
    assert {name for (name,) in ran["matvec"]} == known
    for op, parts in LAYERS.items():
        every = {n: tuple(f"blk.{n}.{part}.weight" for part in parts) for n in range(6)}
        whole = {n for n, names in every.items() if set(names) <= known}
        assert ran[op] == {every[n] for n in whole}
        assert {0, 1} <= whole
        assert listed >= {f"blk.{n}.{op}" for n in set(every) - whole}
    assert {job.verdict for job in jobs} == {Verdict.PASS}


def test_a_file_with_a_later_type_passes_tensor_by_tensor(farm: Farm, tmp_path: Path) -> None:
    """Q2_0, which gguf 0.19 doesn't know, and Q4_K, on the host where it has a compiler."""
    backend = "twin" if missing("host") else "host"
    words = ("--batch", "3", "--backend", backend, "--local", "--json")
    result = farm("submit", "--gguf", str(DATA / "tiny-q2_0.gguf"), *words)
    assert (result.exit_code, figures(result)["listed"]) == (0, [])
    with opened(tmp_path).reading() as s:
        jobs = jobs_of(s, 1)
    assert {job.verdict for job in jobs} == {Verdict.PASS}
    ran = {(job.case.op, job.case.kind, *names_of(job.case)) for job in jobs}
    for op in ("matvec", "mul_mm"):
        assert ran >= {(op, "Q2_0", "blk.0.ffn_up.weight"), (op, "Q4_K", "blk.0.ffn_gate.weight")}


def test_a_tensor_of_an_unknown_type_is_listed_and_the_others_run(farm: Farm, tmp_path: Path) -> None:
    content = bytearray((DATA / "tiny-q2_0.gguf").read_bytes())
    at = content.index(struct.pack("<QQI", 512, 64, 42)) + 16  # dimensions, then the type id
    content[at : at + 4] = struct.pack("<I", 99)
    (tmp_path / "later.gguf").write_bytes(content)
    result = farm("submit", "--gguf", "later.gguf", "--backend", "twin", "--local", "--json")
    ((name, reason),) = [(item["name"], item["reason"]) for item in figures(result)["listed"]]
    assert (result.exit_code, name) == (0, "blk.0.ffn_up.weight")
    assert reason.startswith("type id 99 is unknown to gguf")
    alone = farm("run", "matvec/block", "--gguf", "later.gguf", "--tensor", name)
    assert (alone.exit_code, alone.stderr.count("\n")) == (1, 1)
    assert f"tensor {name}: type id 99 is unknown to gguf" in alone.stderr


LAYERS = {"ffn": ("ffn_gate", "ffn_up", "ffn_down"), "multi_matvec": ("attn_q", "attn_k", "attn_v")}


def names_of(case: Case) -> tuple[str, ...]:
    assert isinstance(case.weights, FromFile)
    return case.weights.tensors


@pytest.mark.parametrize("size", [0, 3, 100, 5000, 200_000])
def test_a_truncated_file_is_one_line_and_no_row(size: int, farm: Farm, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((DATA / "tiny-mixed.gguf").read_bytes()[:size])
    result = farm("submit", "--gguf", "cut.gguf", "--backend", "twin", "--local")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "cut.gguf" in result.stderr
    assert not (tmp_path / ".farm" / "farm.db").exists()


def opened(folder: Path) -> Database:
    return open_existing(f"sqlite:///{folder}/.farm/farm.db")


def test_a_second_farm_on_the_same_database_is_told_who_is_there(farm: Farm, tmp_path: Path) -> None:
    assert farm("submit", *ONE_CELL, "--backend", "twin").exit_code == 0
    holder = (
        "import fcntl; f = open('.farm/farm.db.lock', 'a'); fcntl.flock(f, 2); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        result = farm("submit", *ONE_CELL, "--backend", "twin")
        other.kill()
    assert result.exit_code == 1
    assert "another farm" in result.stderr


def test_a_spool_that_can_not_be_closed_is_a_failure_and_still_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: Coordinator
) -> None:
    def full(spool: Spool) -> None:
        close(spool)
        raise OSError(28, "No space left on device")

    close = Spool.close
    monkeypatch.setattr(Spool, "close", full)
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    thread = BoardThread(coordinator, DEVICE, ("twin",))
    thread.start()
    assert thread.ended.wait(60)
    assert "No space left on device" in thread.failure


def test_the_summary_survives_a_terminal_of_ascii(tmp_path: Path) -> None:
    words = ("submit", "--kernel", "rmsnorm/block", "--shape", "8", "--backend", "twin", "--local")
    ended = subprocess.run(
        [sys.executable, "-m", "farm", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DATA.parents[1]), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("campaign 1:")


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    """`farm …` in a process group of its own, as a terminal has it."""
    code = "import signal; signal.signal(2, signal.default_int_handler); from farm.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(DATA.parents[1])},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_verdicts(process: subprocess.Popen[str], folder: Path) -> None:
    """Returns when the campaign has its first verdict, and fails when the process ends before."""
    while process.poll() is None:
        if (folder / ".farm" / "farm.db").exists() and (folder / ".farm" / "spool").exists():
            with opened(folder).reading() as s:
                if s.exec_driver_sql("SELECT count(*) FROM job WHERE state = 'done'").scalar():
                    return
    raise AssertionError(process.communicate()[1])


# Far more work than is done when the first verdict is seen, so that a signal meets a campaign at work.
MANY = (
    "submit",
    "--kernel",
    "matvec/block",
    "--kernel",
    "matvec/coalesced",
    "--backend",
    "twin",
    "--local",
    "--json",
)


def test_ctrl_c_exits_130_and_resume_finishes(farm: Farm, tmp_path: Path) -> None:
    process = start(tmp_path, *MANY)
    wait_for_verdicts(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "farm resume 1 continues" in err
    assert "Traceback" not in err
    found = figures(farm("resume", "--local", "--json"))
    assert (found["campaign"], found["closed"]) == (1, True)
    assert farm("resume", "--local").exit_code == 2


def test_local_opens_no_port(tmp_path: Path) -> None:
    process = start(tmp_path, *MANY)
    wait_for_verdicts(process, tmp_path)
    assert ray_home.listening_ports(process.pid) == ()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()


def test_a_killed_farm_is_resumed_and_every_job_has_one_verdict(farm: Farm, tmp_path: Path) -> None:
    process = start(tmp_path, *MANY)
    wait_for_verdicts(process, tmp_path)
    process.kill()
    process.communicate()
    found = figures(farm("resume", "1", "--local", "--json"))
    assert found["verdicts"] == {"PASS": found["jobs"]}
    with opened(tmp_path).reading() as s:
        assert campaign_row(s, 1).closed_us is not None


def test_a_bundle_is_imported_once(farm: Farm, tmp_path: Path) -> None:
    assert farm("submit", *ONE_CELL, "--backend", "twin").exit_code == 0
    bundle = tmp_path / "there.jsonl"
    write_bundle(bundle, opened(tmp_path))
    words = ("import", "there.jsonl", "--db", f"sqlite:///{tmp_path}/other/farm.db", "--json")
    first, second = (json.loads(farm(*words).stdout)["bundles"][0] for _ in range(2))
    assert first["new"] == second["repeated"] >= 16
    assert first["repeated"] == second["new"] == 0


def write_bundle(path: Path, database: Database) -> None:
    from db.evidence import of_job
    from workers.bundle import Writer

    writer = Writer(path)
    with database.reading() as s:
        for job in jobs_of(s, 1):
            writer.append(of_job(s, job.id)[0].line)
    writer.close()


def test_a_torn_line_is_reported_and_earlier_damage_refuses_the_file(farm: Farm, tmp_path: Path) -> None:
    assert farm("submit", *ONE_CELL, "--backend", "twin").exit_code == 0
    bundle = tmp_path / "there.jsonl"
    write_bundle(bundle, opened(tmp_path))
    data = bundle.read_bytes()
    bundle.write_bytes(data[:-20])
    torn = farm("import", "there.jsonl")
    assert torn.exit_code == 0
    assert "torn" in torn.stderr
    bundle.write_bytes(data.replace(b'"PASS"', b'"SKIP"', 1))
    damaged = farm("import", "there.jsonl")
    assert damaged.exit_code == 1
    assert damaged.stderr.count("\n") == 1
    assert "refused" in damaged.stderr
