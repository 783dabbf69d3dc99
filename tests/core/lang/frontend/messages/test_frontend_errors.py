"""Every construct that the language refuses: the place, what, and what to do instead."""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys

import pytest
from tools.programs.refused_forms import FORMS
from tools.programs.refused_values import VALUES

from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.source import signature
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.types import float32

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
    """All kernels of the tables, one module each."""
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


@pytest.mark.parametrize("row", [*FORMS, *VALUES], ids=lambda r: r[0])
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


def test_what_is_not_a_def_is_refused(monkeypatch) -> None:
    with pytest.raises(KernelError, match="a lambda cannot become"):
        trace_kernel(lambda x: None, [float32])
    space: dict = {}
    exec("def k(x: float):\n    pass\n", space)
    with pytest.raises(KernelError, match="the source text of `k` cannot be read"):
        trace_kernel(space["k"], [float32])
    for text in ("import sys\n", "def j(x: float):\n    pass\n", "def k(x: float, y: float):\n    pass\n"):
        monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, text.splitlines(True), "<string>"))
        with pytest.raises(KernelError, match="`k` cannot be read: something else stands where it was"):
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
