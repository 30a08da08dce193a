"""Lines of keys and items in a TOML text."""

from __future__ import annotations

import tomllib

import pytest

from kernels.declared.positions import lines

TEXT = (
    '''# a comment = 1
name = "x"   # another [one]
a.b = 1
"quoted key" = """
[not.a.table]
key = 1
"""
list = [
  "one", # , "none"
  { value = 'a # b', dtype = "i32" }, [1,
  2],
]
when = 1979-05-27 07:32:00

[build]
flags = ["--a", "--b"]
defines = { A = 1, "B" = "]" }

[[step]]
args = ["x"]

[[step]]
args = [
  "y",
]
[step.more]
deep = -1
[inputs.x]
literal = '''
    + "'''it's\n'''"
    + """
last = true"""
)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("a", "b"), 3),
        (("quoted key",), 4),
        (("list",), 8),
        (("list", 0), 9),
        (("list", 1), 10),
        (("list", 1, "dtype"), 10),
        (("list", 2), 10),
        (("list", 2, 1), 11),
        (("when",), 13),
        (("build",), 15),
        (("build", "flags", 1), 16),
        (("build", "defines", "B"), 17),
        (("step", 0), 19),
        (("step", 0, "args"), 20),
        (("step", 1), 22),
        (("step", 1, "args", 0), 24),
        (("step", 1, "more"), 26),
        (("step", 1, "more", "deep"), 27),
        (("inputs", "x"), 28),
        (("inputs", "x", "literal"), 29),
        (("inputs", "x", "last"), 31),
    ],
)
def test_line_of_a_path(path, line):
    assert lines(TEXT)[path] == line
    assert lines(TEXT.replace("\n", "\r\n"))[path] == line


def test_every_key_and_item_has_a_line():
    def paths(value, path=()):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            if isinstance(item, (dict, list)):
                yield from paths(item, (*path, key))

    found = lines(TEXT)
    assert [path for path in paths(tomllib.loads(TEXT)) if path not in found] == []


@pytest.mark.parametrize(
    "text", ["", "# nothing", "\n\n", "a = 1", 'a = """x\\""""', "a = ''''''", 'a = """"x""""']
)
def test_short_texts_are_read_to_their_end(text):
    assert set(lines(text)) == {(key,) for key in tomllib.loads(text)}


def test_a_broken_text_has_no_lines():
    assert lines("a = ") == {}
