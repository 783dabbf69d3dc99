"""Every construct that the language refuses: the place, what, and what to do instead."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.source import signature
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.types import float32

# (a name, the body of a kernel `k(x: array[float], v: array[vec3], a: array2d[float], n: int, s: float)`,
#  the text under the caret, what the message says, the hint)
ROWS: list[tuple[str, str, str, str, str]] = [
    # refused statements
    (
        "try",
        "try:\n    pass\nfinally:\n    pass",
        "try:",
        "try cannot be used in a kernel",
        "kernels raise nothing; check values with `if`",
    ),
    ("with", "with x:\n    pass", "with x:", "with cannot be used in a kernel", "kernels have no resources to manage"),
    (
        "def",
        "def f():\n    pass",
        "def f():",
        "a function inside of a kernel cannot be used in a kernel",
        "define it outside, with @sim.func",
    ),
    (
        "class",
        "class C:\n    pass",
        "class C:",
        "a class inside of a kernel cannot be used in a kernel",
        "define it outside, with @sim.struct",
    ),
    (
        "global",
        "global z",
        "global z",
        "global cannot be used in a kernel",
        "kernels change arrays only: pass one as an argument",
    ),
    ("del", "del n", "del n", "del cannot be used in a kernel", "leave the variable alone"),
    (
        "import",
        "import math",
        "import math",
        "import inside of a kernel cannot be used in a kernel",
        "import at the top of the file",
    ),
    (
        "from import",
        "from math import pi",
        "from math",
        "import inside of a kernel cannot be used in a kernel",
        "import at the top of the file",
    ),
    ("raise", "raise ValueError", "raise", "raise cannot be used in a kernel", 'write `assert condition, "message"`'),
    ("match", "match n:\n    case 1:\n        pass", "match n:", "match cannot be used in a kernel", "write if / elif"),
    (
        "for else",
        "for i in range(n):\n    pass\nelse:\n    s = 1.0",
        "s = 1.0",
        "`else` of a loop cannot be used in a kernel",
        "set a variable before `break`, and test it after the loop",
    ),
    (
        "while else",
        "while n > 0:\n    n -= 1\nelse:\n    s = 1.0",
        "s = 1.0",
        "`else` of a loop cannot be used in a kernel",
        "set a variable before `break`, and test it after the loop",
    ),
    # refused expressions
    ("lambda", "f = lambda q: q", "lambda q", "lambda cannot be used in a kernel", "write a function with @sim.func"),
    (
        "dict",
        "d = {1: 2}",
        "{1: 2}",
        "a dictionary cannot be used in a kernel",
        "use a @sim.struct, or constants outside of the kernel",
    ),
    ("set", "d = {1, 2}", "{1, 2}", "a set cannot be used in a kernel", "use a tuple"),
    (
        "generator",
        "d = sum(i for i in range(3))",
        "(i for i",
        "a generator expression cannot be used in a kernel",
        "use a loop",
    ),
    (
        "dict comprehension",
        "d = {i: i for i in range(3)}",
        "{i: i",
        "a dictionary comprehension cannot be used in a kernel",
        "use a loop",
    ),
    ("f-string", 'print(f"{s}")', 'f"{s}"', "an f-string cannot be used in a kernel", 'write print("x =", x)'),
    (
        "walrus",
        "y = (z := s)",
        "z := s",
        "an assignment inside of an expression (:=) cannot be used in a kernel",
        "assign on a line of its own",
    ),
    (
        "star argument",
        "y = max(*x)",
        "*x",
        "*x of array[float32] requires explicit upper bound",
        "how many values this is has to be known while compiling: write *a[0:3], or *x of a tuple or vector",
    ),
    (
        "star keyword",
        "y = helper(**x)",
        "helper(",
        "** in a call cannot be used in a kernel",
        "write the arguments one by one",
    ),
    ("star target", "p, *q = v[0]", "p, *q", "3 values for 2 names", ""),
    ("yield", "yield s", "yield s", "yield cannot be used in a kernel", "return values, or write them to an array"),
    ("slice without a step", "y = x[0:2:0]", "x[0:2:0]", "Slice step cannot be zero", ""),
    (
        "slice of the run",
        "y = v[0][0:n]",
        "v[0][0:n]",
        "a slice of vec3<float32> takes constants",
        "write a loop over the components",
    ),
    (
        "slice from a float",
        "y = x[1.5:]",
        "x[1.5:]",
        "a bound of a slice is an integer, not the number 1.5",
        "write int(...)",
    ),
    (
        "run-time comprehension",
        "y = [i for i in range(n)]",
        "range(n)",
        "this range has to be constant",
        "use a `for` loop",
    ),
    ("bytes", "y = b'1'", "b'1'", "a constant of type bytes cannot be used in a kernel", ""),
    # names
    ("unknown name", "y = cosine(s)", "cosine", "`cosine` is not defined", ""),
    ("near name", "y = helpr(s)", "helpr", "`helpr` is not defined (did you mean 'helper'?)", ""),
    ("used before", "y = q\nq = 1.0", "q", "`q` is used before it has a value", "assign it first"),
    (
        "one branch",
        "if n > 0:\n    y = 1.0\nx[0] = y",
        "y",
        "`y` may have no value here: only one branch of the `if` on line 15 assigns it",
        "give it a value before, on every path",
    ),
    (
        "inside the loop",
        "for i in range(n):\n    y = 1.0\nx[0] = y",
        "y",
        "`y` may have no value here: it is assigned only inside of the loop on line 15",
        "give it a value before, on every path",
    ),
    (
        "loop variable after the loop",
        "for i in range(n):\n    x[i] = s\nx[i] = s",
        "i] = s",
        "`i` may have no value here: it is the variable of the loop on line 15",
        "give it a value before, on every path",
    ),
    (
        "captured array",
        "y = HOST[0]",
        "HOST",
        "`HOST` is an array from outside of the kernel",
        "pass it as an argument: `HOST: sim.array(dtype=...)`",
    ),
    # calls
    (
        "numpy function",
        "y = np.sinc(s)",
        "np.sinc(s)",
        "`numpy.sinc` is a NumPy function: it cannot run inside of a kernel",
        "write it with functions of the language",
    ),
    (
        "python function",
        "y = plain(s)",
        "plain(s)",
        "`prelude.plain` is a Python function, not one of the kernel language",
        "decorate it with @sim.func",
    ),
    (
        "library of Python",
        "y = os.getcwd()",
        "os.getcwd()",
        "is a Python function, not one of the kernel language",
        "call it outside, and pass the result as an argument",
    ),
    (
        "too many arguments",
        "y = helper(s, s, s)",
        "helper(",
        "`helper` takes 2 arguments, got 3",
        "its parameters: p, q",
    ),
    ("missing argument", "y = helper(s)", "helper(", "`helper` needs a value for 'q'", "its parameters: p, q"),
    ("unknown argument", "y = helper(s, r=s)", "helper(", "`helper` has no parameter 'r'", "its parameters: p, q"),
    ("argument twice", "y = helper(s, p=s)", "helper(", "`helper` got 'p' twice", ""),
    (
        "argument type",
        "y = helper(n, s)",
        "helper(",
        "argument 'p' of `helper`: expected float32, got int32",
        "write float(...) to convert",
    ),
    ("recursion", "y = forever(s)", "forever", "`forever` calls itself", "kernels cannot recurse: use a loop"),
    (
        "no return on some path",
        "y = sometimes(s)",
        "def sometimes",
        "`sometimes` does not return a value on every path",
        "add a `return` at the end",
    ),
    (
        "two types returned",
        "y = either(s)",
        "if s > 0.0",
        "`either` returns float32 and int32 on different paths",
        "return one type",
    ),
    (
        "primitive on an integer",
        "y = math.sin(n)",
        "math.sin(n)",
        "sin takes floats, not int32",
        "write sin(float(...))",
    ),
    ("argument count of a primitive", "y = math.atan2(s)", "math.atan2", "atan2 takes 2 arguments, got 1", ""),
    ("calling a value", "y = s(1)", "s(1)", "float32 cannot be called", ""),
    (
        "range of a float",
        "for i in range(s):\n    pass",
        "range(s)",
        "range takes signed integers, got float32",
        "write int(...)",
    ),
    (
        "loop over an array",
        "for y in x:\n    pass",
        "x:",
        "a loop over an array",
        "loop over its indices: `for i in range(len(a))`",
    ),
    ("loop over a number", "for y in n:\n    pass", "n:", "int32 cannot be looped over", "write `for i in range(n)`"),
    # types
    (
        "int plus float",
        "y = n + s",
        "n + s",
        "+ of int32 and float32: there is no implicit conversion",
        "convert the left side: write float(...)",
    ),
    (
        "float times int",
        "y = s * n",
        "s * n",
        "* of float32 and int32: there is no implicit conversion",
        "convert the right side: write float(...)",
    ),
    (
        "comparison",
        "u = uint32(3)\ny = n < u",
        "n < u",
        "< of int32 and uint32: there is no implicit conversion",
        "convert the right side: write int(...)",
    ),
    (
        "int and fraction",
        "y = n * 0.5",
        "n * 0.5",
        "* of int32 and the number 0.5: there is no implicit conversion",
        "write float(...) around the integer",
    ),
    (
        "two widths",
        "y = s + sim_float64(s)",
        "s + sim_float64",
        "+ of float32 and float64: there is no implicit conversion",
        "convert the left side: write sim.float64(...)",
    ),
    (
        "half of a float by whole numbers",
        "y = x[0] * (1 / 2)",
        "x[0] * (1 / 2)",
        "* of float32 and int32: there is no implicit conversion",
        "convert the right side: write float(...)",
    ),
    ("division by zero", "y = 1 // 0", "1 // 0", "1 // 0: division by zero", ""),
    (
        "bits of floats",
        "y = s & s",
        "s & s",
        "& is not defined for float32; it takes integers, unsigned integers, bools",
        "",
    ),
    (
        "sum of bools",
        "y = (n > 1) + (n > 2)",
        "(n > 1) + ",
        "+ is not defined for bool; it takes floats, integers, unsigned integers",
        "write `and`, `or`, `not` for logic, int(...) for numbers",
    ),
    (
        "vector times vector",
        "y = v[0] * v[1]",
        "v[0] * v[1]",
        "* is not defined for vec3<float32> and vec3<float32>",
        "write sim.dot(a, b) for the inner product, sim.cw_mul(a, b) component by component",
    ),
    ("vector plus scalar", "y = v[0] + s", "v[0] + s", "+ is not defined for vec3<float32> and float32", ""),
    (
        "scalar of the wrong type",
        "y = v[0] * n",
        "v[0] * n",
        "* of vec3<float32> and int32: there is no implicit conversion",
        "convert the scalar to float32",
    ),
    ("order of vectors", "y = v[0] < v[1]", "v[0] < v[1]", "< is not defined for vec3<float32> and vec3<float32>", ""),
    (
        "condition of a vector",
        "if v[0]:\n    pass",
        "v[0]",
        "vec3<float32> is neither true nor false",
        "compare it with something",
    ),
    (
        "too large a number",
        "y = n + 3000000000",
        "n + 3000000000",
        "the number 3000000000 does not fit into int32",
        "use a wider type, as in sim.int64(...)",
    ),
    (
        "type changed in a loop",
        "y = s\nfor i in range(n):\n    y = i",
        "for i",
        "`y` changes its type in this loop, from float32 to int32",
        "start with `y = sim.int32(...)`",
    ),
    (
        "fraction into an integer variable",
        "y = 0.5\nfor i in range(n):\n    y = i",
        "for i",
        "`y` changes its type in this loop, from the number 0.5 to int32",
        "start with `y = sim.int32(...)`",
    ),
    (
        "two types after an if",
        "if n > 0:\n    y = s\nelse:\n    y = n\nx[0] = y",
        "y",
        "`y` is float32 and int32 after the branches of the `if` on line 15",
        "give it a value before, on every path",
    ),
    (
        "two types of a choice",
        "y = s if n > 0 else n",
        "s if n",
        "the two sides of a choice are float32 and int32",
        "convert one of them",
    ),
    ("is", "y = s is n", "s is n", "`is` compares with None only", "write =="),
    (
        "in",
        "y = n in (1, 2)",
        "n in",
        "`in` is decided while compiling: it takes a constant and a tuple of constants",
        "compare one by one: `i == 1 or i == 2`",
    ),
    # memory
    ("float index", "y = x[s]", "x[s]", "an array index is an integer, not float32", "write int(...)"),
    ("too many indices", "y = x[0, 1]", "x[0, 1]", "float32 cannot be indexed", "too many indices?"),
    ("component out of range", "y = v[0][3]", "v[0][3]", "index 3 is outside of 0 .. 2", ""),
    ("unknown component", "y = v[0].a", "v[0].a", "vec3<float32> has no component 'a'", "it has x, y, z"),
    ("no fourth component", "y = v[0].w", "v[0].w", "vec3<float32> has no component 'w'", "it has x, y, z"),
    (
        "method of a vector",
        "q = v[0]\ny = q.dot(q)",
        "q.dot",
        "vec3<float32> has no component 'dot'",
        "it has x, y, z; write sim.dot(...)",
    ),
    (
        "element of the wrong type",
        "x[0] = n",
        "x[0]",
        "an element of `x` is float32: expected float32, got int32",
        "write float(...) to convert",
    ),
    (
        "vector into a scalar",
        "x[0] = v[0]",
        "x[0]",
        "an element of `x` is float32: expected float32, got vec3<float32>",
        "",
    ),
    (
        "scalar into a vector",
        "v[0] = s",
        "v[0]",
        "an element of `v` is vec3<float32>: expected vec3<float32>, got float32",
        "",
    ),
    (
        "fraction into an integer array",
        "a[0] = s",
        "a[0]",
        "a row of an array cannot be assigned to: it has 1 more dimension",
        "assign to its elements",
    ),
    (
        "array shape",
        "x.shape = n",
        "x.shape",
        "the shape of an array cannot be assigned to",
        "make the array that you need outside of the kernel",
    ),
    (
        "array attribute",
        "y = x.shap",
        "x.shap",
        "an array has no attribute 'shap' in a kernel (did you mean 'shape'?)",
        "",
    ),
    (
        "atomic without an index",
        "atomic_add(x, s)",
        "atomic_add",
        "atomic_add on array[float32] takes 1 index and a value, got 1 argument after the array",
        "",
    ),
    (
        "atomic on a value",
        "atomic_add(s, 0, s)",
        "atomic_add",
        "atomic_add takes an array, indices and a value, got float32",
        "write atomic_add(array, i, value)",
    ),
    (
        "component of a constant",
        "OFFSET.x = s",
        "OFFSET.x",
        "a part of `OFFSET`, which is from outside of the kernel, cannot be assigned to",
        "copy it into a variable first",
    ),
    (
        "component of a type",
        "y = vec3(s, n, s)",
        "vec3(s, n, s)",
        "component 1 of vec3<float32>(...) is expected to be of the type float32, got int32",
        "write float(...) to convert",
    ),
    ("too few components", "y = vec3(s, s)", "vec3(s, s)", "vec3<float32>(...) takes 3 components, got 2", ""),
    (
        "a vector that is too short",
        "y = vec3(vec2(s))",
        "vec3(vec2(s))",
        "takes 3 components, got 2, of vec2<float32>",
        "",
    ),
    (
        "a matrix of another shape",
        "y = matrix(matrix(shape=(2, 3), dtype=float), shape=(3, 2), dtype=float)",
        "matrix(matrix(",
        "mat32<float32>(...) takes 6 numbers row by row, or one for all, got mat23<float32>",
        "write sim.matrix_from_rows(...) or sim.matrix_from_cols(...) for vectors",
    ),
    (
        "vectors into a matrix",
        "y = mat33(v[0], v[1], v[2])",
        "mat33(",
        "takes 9 numbers row by row, or one for all, got vec3<float32> and vec3<float32> and vec3<float32>",
        "write sim.matrix_from_rows(...) or sim.matrix_from_cols(...) for vectors",
    ),
    ("unknown field", "y = Point(z=s)", "Point(", "struct Point has no field 'z'", "it has mass, at"),
    (
        "field of the wrong type",
        "y = Point(mass=n)",
        "Point(",
        "field 'mass' of Point: expected float32, got int32",
        "write float(...) to convert",
    ),
    (
        "field of a value",
        "y = Point()\ny.mas = s",
        "y.mas",
        "struct Point has no field 'mas' (did you mean 'mass'?)",
        "it has mass, at",
    ),
    ("returned value", "return s", "def k", "kernel `k` returns a value", "write it to an array"),
    ("unpacking a number", "y, z = s", "y, z", "float32 cannot be unpacked", ""),
    ("tid of five", "i, j, k, m, o = tid()", "tid()", "tid() gives 1 to 4 indices, not 5", ""),
    (
        "inside a library function",
        "y = smoothstep(v[0], s, s)",
        "smoothstep(v[0], s, s)",
        "in `smoothstep`: - is not defined for float32 and vec3<float32>",
        "",
    ),
    (
        "static",
        "y = static(s + 1)",
        "static(",
        "Error evaluating static expression: name 's' is not defined (NameError)",
        "",
    ),
]

HEADER = """import math, os
import numpy as np
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.builtins import atomic_add, tid, static
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.types import array_type, float64 as sim_float64, named_types, struct, uint32
vec3, mat33, smoothstep = named_types()["vec3"], named_types()["mat33"], NAMES["smoothstep"]
HOST = np.zeros(3)
OFFSET = vec3(1, 2, 3)
from prelude import Point, either, forever, helper, plain, sometimes



def k(x: array_type(float), v: array_type(vec3), a: array_type(float, 2), n: int, s: float):
"""

PRELUDE = """from sim.core.lang.frontend.function import func
from sim.core.lang.types import named_types, struct


@func
def helper(p: float, q: float):
    return p + q


def plain(p):
    return p


@func
def forever(p):
    return forever(p)


@func
def sometimes(p):
    if p > 0.0:
        return p


@func
def either(s):
    if s > 0.0:
        return s
    return int(s)


@struct
class Point:
    mass: float
    at: named_types()["vec3"]
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """All kernels of the table, one module each."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "prelude.py").write_text(PRELUDE)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("prelude", None)


def load(folder, name: str, text: str):
    path = folder / f"{re.sub(r'[^a-z]', '_', name.lower())}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refused(kernel) -> KernelError:
    with pytest.raises(KernelError) as caught:
        trace_kernel(kernel, [p.type for p in signature(kernel)])
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_refused(row, modules) -> None:
    name, body, under, what, hint = row
    text = HEADER + "".join(f"    {line}\n" for line in body.split("\n"))
    error = refused(load(modules, name, text).k)
    assert what in error.what
    if hint:
        assert error.hint == hint
    assert error.span is not None and error.span.text
    assert error.span.text[error.span.col - 1 :].startswith(under), error
    message = str(error)
    assert message.startswith(f"{error.span.file}:{error.span.line}:{error.span.col}: ")
    assert message.split("\n")[2].index("^") == 4 + error.span.col - 1


def test_the_whole_message(modules) -> None:
    kernel = load(modules, "whole message", HEADER + "    y = n + s\n").k
    file = kernel.__code__.co_filename
    assert (
        str(refused(kernel)) == f"{file}:15:9: + of int32 and float32: there is no implicit conversion\n"
        "        y = n + s\n"
        "            ^\n"
        "    convert the left side: write float(...)"
    )


def test_an_error_inside_a_function_names_the_calls_that_led_there(modules) -> None:
    text = (
        HEADER.replace(
            "\n\n\ndef k", "\n@func\ndef inner(p, n): return p * n\n@func\ndef outer(p, n): return inner(p, n)\ndef k"
        )
        + "    y = outer(s, n)\n"
    )
    error = refused(load(modules, "calls", text).k)
    assert error.span.text.strip() == "def inner(p, n): return p * n"
    assert re.search(r"called from `outer` at .*; called from `k` at ", error.what)


def test_an_error_inside_the_library_points_at_the_users_call(modules) -> None:
    error = refused(load(modules, "library", HEADER + "    y = s\n    y = NAMES['lerp'](v[0], s, s)\n").k)
    assert error.span.text.strip().startswith("y = NAMES['lerp']") and error.what.startswith("in `lerp`: ")


def test_decorated_and_indented_functions_keep_their_places() -> None:
    def wrap(f):
        return f

    if True:

        @wrap
        def k(
            x: float,
            n: int,
        ) -> None:
            """Text with
            a line at the margin."""
            y = x + n  # noqa: F841

    error = refused(k)
    assert error.span.text.strip() == "y = x + n  # noqa: F841" and error.span.text[error.span.col - 1] == "x"


def test_what_is_not_a_def_is_refused() -> None:
    with pytest.raises(KernelError, match="a lambda cannot become"):
        trace_kernel(lambda x: None, [float32])
    space: dict = {}
    exec("def k(x: float):\n    pass\n", space)
    with pytest.raises(KernelError, match="the source text of `k` cannot be read"):
        trace_kernel(space["k"], [float32])

    def stars(*x):
        pass

    with pytest.raises(KernelError, match=r"takes \*args"):
        signature(stars)


def test_a_broken_kernel_breaks_no_other(modules) -> None:
    text = (
        HEADER
        + "    y = n + s\n\n\ndef good(x: array_type(float), v: array_type(vec3), a: array_type(float, 2), n: int, s:"
        " float):\n    x[n] = s\n"
    )
    module = load(modules, "two kernels", text)
    refused(module.k)
    assert trace_kernel(module.good, [p.type for p in signature(module.good)]).body.ops
    refused(module.k)
