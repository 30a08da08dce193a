"""farm catalog, and the commands that take --catalog."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from farm.cli.catalog import EXAMPLES, templates
from kernels import registry
from kernels.op import JudgedOp
from tests.workers.catalogs import DATA


def farm(*words: str) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def test_there_is_a_template_for_ops_of_every_sort():
    assert set(templates()) == set(EXAMPLES)
    assert set(templates()) <= {op.name for op in registry.ops().values() if isinstance(op, JudgedOp)}
    assert len(templates()) == 5


@pytest.mark.parametrize("op", templates())
@pytest.mark.parametrize("build", ["exact", "declared", "check"])
def test_a_template_passes_as_it_is(op, build, tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    folder = tmp_path / "mine"
    said = farm("catalog", "new", folder, "--op", op)
    assert (said.exit_code, sorted(one.name for one in folder.iterdir())) == (0, ["mine.cu", "mine.toml"])
    assert farm("catalog", "check", folder).stdout.endswith(", no mistakes\n")
    words = said.stdout.split()
    assert words[:4] == ["farm", "run", "--catalog", str(folder)]
    found = farm(*words[1:], "--build", build, "--json")
    evidence = json.loads(found.stdout)
    assert (found.exit_code, evidence["verdict"], evidence["comparison"]["bad"]) == (0, "PASS", 0)
    assert evidence["comparison"]["positions"] >= 64


def test_check_lists_every_mistake_and_exits_with_2(tmp_path):
    farm("catalog", "new", tmp_path / "mine")
    path = tmp_path / "mine" / "mine.toml"
    path.write_text(path.read_text().replace('"blocks", "row', '"blokcs", "row').replace("Q8_0", "Q8_1"))
    found = farm("catalog", "check", tmp_path / "mine")
    assert found.exit_code == 2
    assert [line.split(": ")[0] for line in found.stdout.splitlines()] == ["mine.toml:5", "mine.toml:28"]
    assert found.stderr.endswith("0 kernels, 0 steps, 0 shapes planned, 2 mistakes\n")
    told = json.loads(farm("catalog", "check", tmp_path / "mine", "--json").stdout)
    assert [one["line"] for one in told["mistakes"]] == [5, 28]
    run = farm("run", "--catalog", tmp_path / "mine", "matvec/mine", "Q8_0", "8x32")
    assert run.exit_code == 2
    assert run.stderr.startswith("farm: mine.toml:5: no kind named 'Q8_1'; did you mean 'Q8_0'?")
    assert run.stderr.count("\n") == 1


BAD = [  # an edit of the template, and the one line that it gives
    ("mine.toml", '"weights", "x"', '"wieghts", "x"', "mine.toml:28: no buffer, scalar or size named"),
    ("mine.toml", "mine.cu::mine", "mine.cu::yours", "mine.toml:27: no __global__ function in mine.cu named"),
    ("mine.toml", "mine.cu::mine", "../mine.cu::mine", "mine.toml:27: entry_point '../mine.cu::mine'"),
    ("mine.toml", "mine.cu::mine", "/mine.cu::mine", "mine.toml:27: entry_point '/mine.cu::mine': '/mine.cu"),
    ("mine.toml", '["ceil_div(rows, warps)"]', '["rows / (warps - 4)"]', "mine.toml:29:6: in 'rows / (warps"),
    ("mine.toml", '["ceil_div(rows, warps)"]', '["rowz"]', "mine.toml:29:1: in 'rowz': no size named 'rowz'"),
    ("mine.toml", '["ceil_div(rows, warps)"]', '[1, 65536]', "mine.toml:29: grid.y is 65536 by '65536'"),
    ("mine.toml", '["warp", "warps"]', '["warp", 33]', "mine.toml:30: block (32, 33, 1) has 1,056 threads"),
    ("mine.cu", "__global__", '#include "../up.h"\n__global__', "mine.cu:"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "says"), BAD)
def test_bad_input_is_one_line_with_its_file_and_line(file, old, new, says, tmp_path):
    farm("catalog", "new", tmp_path / "mine")
    path = tmp_path / "mine" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    found = farm("catalog", "check", tmp_path / "mine")
    assert (found.exit_code, len(found.stdout.splitlines())) == (2, 1), found.stdout
    assert found.stdout.startswith(says), found.stdout
    assert farm("catalog", "check", tmp_path / "mine", "--run").stdout == found.stdout  # nothing runs


def test_a_folder_with_a_link_out_of_it_is_refused(tmp_path):
    farm("catalog", "new", tmp_path / "mine")
    (tmp_path / "mine" / "link.cuh").symlink_to("/etc/hostname")
    found = farm("catalog", "check", tmp_path / "mine")
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert "link.cuh is a symbolic link; copy what it points at into the catalog" in found.stderr


def test_check_says_what_it_looked_at():
    found = farm("catalog", "check", DATA / "engine")
    assert (found.exit_code, found.stdout.startswith(f"{DATA / 'engine'}: 1 kernels, 2 steps, ")) == (0, True)
    told = json.loads(farm("catalog", "check", DATA / "engine", "--json").stdout)
    assert (told["kernels"], told["steps"], told["mistakes"], len(told["digest"])) == (1, 2, [], 64)
    assert told["shapes"] >= 20


def test_check_run_says_how_much_was_compared_and_runs_the_kernel_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    found = farm("catalog", "check", DATA / "walk", "--run")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.splitlines()[1:] == [
        "matvec/rows: 75 outputs of kernels that compute nothing (zero, constant, stale-output), "
        "2,088 elements compared: none passes",
        "matvec/rows itself on host, build exact: 25 PASS",
    ]


def test_check_run_refuses_a_tolerance_that_lets_zero_pass_at_its_line(tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    shutil.copytree(DATA / "walk", tmp_path / "walk")
    with (tmp_path / "walk" / "rows.toml").open("a") as file:
        file.write('[tolerance]\nreason = "none"\nabsolute = 1\n')
    found = farm("catalog", "check", tmp_path / "walk", "--run")
    assert found.exit_code == 2
    said = [line for line in found.stdout.splitlines() if line.startswith("rows.toml:")]
    assert len(said) == 2
    assert said[0].startswith(
        "rows.toml:25: tolerance lets a zero kernel pass matvec/rows Q8_0 9x160 tiny: 0."
    ), said[0]
    (told,) = json.loads(farm("catalog", "check", tmp_path / "walk", "--run", "--json").stdout)["run"]
    assert told["seen"] == {"caught": 71, "passed": 2, "cancelled": 2}
    assert told["verdicts"] == {"PASS": 21, "FAIL": 4}  # where inputs are large, it is no tolerance at all
    assert [(one["file"], one["line"]) for one in told["refused"]] == [("rows.toml", 25)] * 2


def test_check_run_exits_with_3_for_a_kernel_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    shutil.copytree(DATA / "walk", tmp_path / "walk")
    text = (tmp_path / "walk" / "rows.cu").read_text()
    (tmp_path / "walk" / "rows.cu").write_text(text.replace("row >= rows", "row >= rows - 1"))
    found = farm("catalog", "check", tmp_path / "walk", "--run")
    assert found.exit_code == 3
    assert found.stdout.count("\nFAIL matvec/rows Q8_0 ") == 10
    assert "\n… and 15 more; --json has all\n" in found.stdout
    assert found.stdout.endswith("matvec/rows itself on host, build exact: 25 FAIL\n")


def test_check_run_without_a_compiler_still_tries_the_tolerances(tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = farm("catalog", "check", DATA / "walk", "--run")
    assert (found.exit_code, found.stdout.count("none passes"), "itself" in found.stdout) == (0, 1, False)
    assert found.stderr.startswith("farm: the kernels themselves don't run: host is unavailable because CXX=")


def test_kernels_lists_those_of_a_catalog_with_their_builds():
    told = json.loads(farm("kernels", "matvec/int8", "--catalog", DATA / "engine", "--json").stdout)
    (record,) = told["kernels"]
    assert (record["kinds"], record["builds"]) == (["Q4_0", "Q8_0"], ["exact", "default", "declared"])
    assert {len(one) for one in record["source_digests"].values()} == {3}
    text = farm("kernels", "--catalog", DATA / "engine", "--text", "matvec/int8", "Q4_0").stdout
    assert '#line 1 "src/blocks.cuh"' in text
    gone = farm("kernels", "matvec/int8")
    assert (gone.exit_code, "no kernel named 'matvec/int8'" in gone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("catalog", "check", "nowhere"), 2, "nowhere is no folder"),
        (
            ("catalog", "new", "mine", "--op", "ffn"),
            2,
            "no template for op 'ffn'; there are add_rmsnorm, matvec",
        ),
        (
            ("run", "--catalog", DATA / "walk", "matvec/rows", "Q4_0", "8x32"),
            2,
            "matvec/rows doesn't exist for Q4_0",
        ),
        (
            ("run", "matvec/block", "Q4_0", "8x32", "--build", "declared"),
            2,
            "matvec/block has no build 'declared', it has exact, default",
        ),
    ],
)
def test_a_wrong_word_is_one_line(words, code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = farm(*words)
    assert (found.exit_code, found.stderr.startswith(f"farm: {says}"), found.stderr.count("\n")) == (
        code,
        True,
        1,
    )


def test_new_leaves_a_folder_with_something_in_it_alone(tmp_path):
    Path(tmp_path / "kept").touch()
    found = farm("catalog", "new", tmp_path)
    assert (found.exit_code, "is there and not empty; name a new folder" in found.stderr) == (1, True)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
