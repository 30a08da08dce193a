"""Nothing of the farm unpickles, evaluates, gives text to a shell or leaves a certificate unchecked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("kernels", "workers", "db", "farm", "deploy")
MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}
ALLOWED = {
    ("kernels/codec.py", "marshal"),  # copies of its own values, within one process
    ("kernels/declared/twin.py", "exec"),  # a user's twin, in the isolated child alone
}


def found(path: str, text: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((path, each.name) for each in node.names if each.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield path, str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS:
                yield path, name
            for each in node.keywords:
                given = f"{each.arg}={ast.unparse(each.value)}"
                if given in ("shell=True", "verify=False", "allow_pickle=True"):
                    yield path, given


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(paths) > 300
    seen = {
        each
        for path in paths
        for each in found(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf8"))
    }
    assert seen == ALLOWED


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import pickle", "pickle"),
        ("from cloudpickle import loads", "cloudpickle"),
        ("eval('1')", "eval"),
        ("subprocess.run('ls', shell=True)", "shell=True"),
        ("requests.get(url, verify=False)", "verify=False"),
        ("np.load(file, allow_pickle=True)", "allow_pickle=True"),
    ],
)
def test_each_of_them_is_seen(text: str, what: str) -> None:
    assert list(found("x.py", text)) == [("x.py", what)]
