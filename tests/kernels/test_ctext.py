"""The reader of CUDA C: tokens, parts, operands, and what only a device compiles."""

from __future__ import annotations

import pytest

from kernels import ctext, registry, source
from kernels.source import texts

TEXT = """
#define SIZE 4
__device__ const int TABLE[2] = {1, -2};
__device__ int unused(int a) { return a + 1; }
__device__ int helper(int a) {
#ifdef __CUDA_ARCH__
    return device_only(a);
#else
    return a * TABLE[0];  // a comment + 1
#endif
}
extern "C" __global__ void ENTRY(float *out) {
    float w[SIZE + 1], v = 0x1.8p+3f;
    out[0] = (float)-helper(3) + w[0] * (v - 2) << 1;
}
"""


def words(unit: ctext.Unit, first: int, last: int) -> str:
    return " ".join(token.text for token in unit.tokens[first:last])


def index(unit: ctext.Unit, word: str, nth: int = 0) -> int:
    return [i for i, token in enumerate(unit.tokens) if token.text == word][nth]


def test_tokens_are_read_whole() -> None:
    tokens = [(t.kind, t.text) for t in ctext.read("a>>=0x1.8p+3f&&b1 <<-2.5e-3 'x' \"y z\"// gone").tokens]
    assert tokens == [
        ("name", "a"), ("mark", ">>="), ("number", "0x1.8p+3f"), ("mark", "&&"), ("name", "b1"),
        ("mark", "<<"), ("mark", "-"), ("number", "2.5e-3"), ("string", "'x'"), ("string", '"y z"'),
    ]  # fmt: skip


def test_what_only_a_device_compiles_is_left_out() -> None:
    unit = ctext.read(TEXT)
    assert not any(token.text == "device_only" for token in unit.tokens)
    assert ctext.read("#ifndef __CUDA_ARCH__\na\n#else\nb\n#endif\nc").tokens[0].text == "a"


def test_the_other_branch_of_a_device_condition_is_the_hosts() -> None:
    tokens = ctext.read("#ifndef __CUDA_ARCH__\na\n#else\nb\n#endif\nc").tokens
    assert [token.text for token in tokens] == ["a", "c"]


def test_reached_follows_calls_and_tables_and_nothing_else() -> None:
    names = [part.name for part in ctext.read(TEXT).reached("ENTRY")]
    assert names == ["TABLE", "helper", "ENTRY"]


@pytest.mark.parametrize("part", ["TABLE", "helper", "ENTRY"])
def test_parts_are_tables_or_functions(part: str) -> None:
    assert ctext.read(TEXT).parts[part].is_table is (part == "TABLE")


def test_a_sign_behind_a_cast_is_not_binary() -> None:
    unit = ctext.read(TEXT)
    minus = index(unit, "-", 1)  # of -helper; the table's is the first
    assert not unit.is_binary(minus)
    assert unit.is_binary(index(unit, "-", 2))


@pytest.mark.parametrize(
    ("word", "operand"), [("+", "w [ 0 ] * ( v - 2 )"), ("*", "( v - 2 )"), ("<<", "1"), ("-", "2")]
)
def test_right_operand_ends_where_its_operator_binds_no_more(word: str, operand: str) -> None:
    unit = ctext.read("x = w[0] + w[0] * (v - 2) << 1;")
    i = index(unit, word)
    assert words(unit, i + 1, unit.right_operand(i)) == operand


def test_sizes_of_declared_arrays_are_told_from_indexes() -> None:
    unit = ctext.read(TEXT)
    assert unit.declares_size(index(unit, "SIZE"))
    assert not unit.declares_size(index(unit, "0", 1))


@pytest.mark.parametrize(("kernel", "kind"), texts())
def test_every_text_of_the_catalog_is_read(kernel: str, kind: str) -> None:
    unit = ctext.read(source.text(kernel, kind))
    names = {part.name for part in unit.reached("ENTRY")}
    assert "ENTRY" in names
    decodes = bool(kind) and not registry.kernel(kernel).packing
    # Floats of a lane, of sixteen, or the integers of sixteen; some kinds make decode16 of lanes.
    assert bool({"decode_lane", "decode16", "ints16"} & names) == decodes


ENGINE = """
#define GUARD \\
    not code(
#define VIA(x) through_macro(x)
namespace engine { namespace {
template <int N, typename T = int> struct Block;
template <> struct Block<18> {
    uint8_t scale[2];
    __device__ int q(int i) const { uint8_t tmp[4]; return tmp[i] < N; }
};
template <> struct Block<34> { int q; };
typedef struct { float half; } named_behind;
struct __align__(8) Aligned : Block<18> { int a; };
class Unused { int gone; };
enum Kinds { ONE = 1 };
static inline int through_macro(int x) { return x + 1; }
int helper(const Aligned &a) noexcept { return a.a; }
}  // a comment
template <int BYTES, class T>
__global__ void __launch_bounds__(32 * BYTES) matvec(const Block<BYTES> *from, named_behind &n) {
    const int a = static_cast<int>(n.half) < BYTES ? VIA(1) : helper({});
    auto *p = reinterpret_cast<const Block<BYTES> *>(from);
}
}
extern "C" { __global__ void plain(int rows) { return; } }
"""


def test_cpp_is_read_through_namespaces_templates_and_linkage() -> None:
    unit = ctext.read(ENGINE)
    assert list(unit.parts) == [
        "Block", "Block#2", "named_behind", "Aligned", "Unused", "through_macro", "helper", "matvec", "plain",
    ]  # fmt: skip
    assert [part.name for part in unit.parts.values() if part.is_record] == [
        "Block", "Block#2", "named_behind", "Aligned", "Unused",
    ]  # fmt: skip


def test_what_a_signature_or_a_macro_names_is_reached() -> None:
    reached = [part.name for part in ctext.read(ENGINE).reached("matvec", "plain")]
    assert reached == [
        "Block", "Block#2", "named_behind", "Aligned", "through_macro", "helper", "matvec", "plain",
    ]  # fmt: skip


def test_the_angles_of_templates_and_casts_are_no_operators() -> None:
    unit = ctext.read(ENGINE)
    binary = [i for i, token in enumerate(unit.tokens) if token.text in "<>" and unit.is_binary(i)]
    assert [words(unit, i - 1, i + 2) for i in binary] == ["] < N", ") < BYTES"]


def test_a_structs_fields_are_part_of_its_layout_and_a_local_array_is_not() -> None:
    unit = ctext.read(ENGINE)
    field, local = index(unit, "2"), index(unit, "4")
    assert (unit.declares_size(field), unit.declares_size(local)) == (False, True)


def test_a_macro_of_several_lines_is_no_code() -> None:
    assert not any(token.text == "not" for token in ctext.read(ENGINE).tokens)
