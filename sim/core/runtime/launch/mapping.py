"""`map(function, *inputs)`: a function of the language, or of Python, applied to the elements of arrays.

The kernel is written as text for a form of its inputs (which are arrays, of how many dimensions, along which of them
they are repeated), and specialised for their types like any other.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

from sim.core.lang.embedding import traced
from sim.core.lang.errors import entry_point
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.source import LambdaSource
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.types import HostStruct, Type, float32, has_float, type_of_value
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.launch.module import Module, get_module

KEPT = 256
"""Kernels that stay, the last that were asked for."""
_number = count()
_functions: dict[Any, Function] = {}
"""Python functions that were mapped, by their code and the cells of their closure (which they keep)."""


@entry_point
def map(  # noqa: A001  Warp's name
    func: Function | Builtin | Callable[..., Any],
    *inputs: Any,
    out: array | Sequence[array] | None = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Any = None,
) -> Any:
    """Applies a function (also a lambda) to the elements of arrays, which are broadcast against each other as in NumPy.

    inputs: at least one array; other values (numbers, vectors, structs) are the same for every element.
    out: the array (or arrays, if the function returns several values) of the broadcast shape to write to; made where
        it is not given, with a gradient if an input has one.  Returned.
    return_kernel: the kernel instead, with the inputs and then the outputs as its parameters; nothing is launched.
    block_dim: accepted as in Warp.  device: where to run, by default where the first array lies.

    Recorded by tapes and captured by graphs like a launch.
    Raises TypeError and ValueError where arguments do not fit, KernelError where the function does not take elements of
    these types.
    """
    arrays = [x for x in inputs if _is_array(x)]
    if not arrays:
        raise ValueError("map needs at least one array among its inputs")
    shape = _broadcast([a.shape for a in arrays])
    called = _as_function(func)
    kinds = [_element_type(x) for x in inputs]
    python = None if isinstance(called, Builtin) else called.python
    if python is not None and len(inputs) > python.__code__.co_argcount:
        raise TypeError(f"`{called.name}` takes {python.__code__.co_argcount} argument(s), map got {len(inputs)}")
    results = _result_types(called, kinds)
    outputs = _outputs(out, results, shape, arrays, device)
    kernel = _kernel(called, tuple(_places(x, shape) for x in inputs), len(shape), len(outputs))
    if return_kernel:
        return kernel
    launch(kernel, dim=shape, inputs=list(inputs), outputs=outputs, device=device or arrays[0].device)
    return outputs[0] if len(outputs) == 1 else outputs


def _is_array(x: Any) -> bool:
    """Arrays, and what shows a part of one."""
    return isinstance(getattr(x, "dtype", None), Type) and hasattr(x, "shape") and hasattr(x, "device")


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"shapes {' and '.join(str(s) for s in shapes)} are not broadcastable") from None
    return shape


def _element_type(x: Any) -> Type:
    kind: Type | None
    if _is_array(x):
        kind = x.dtype
    elif isinstance(x, HostStruct):
        kind = x._sim_struct_
    else:
        kind = type_of_value(x, float32)
    if kind is None:
        raise TypeError(f"map takes arrays, numbers, vectors and structs, not a {type(x).__name__}")
    return kind


def _as_function(function: Any) -> Function | Builtin:
    if isinstance(function, (Function, Builtin)):
        return function
    code = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"map takes a function, not {function!r}")
    key = (code, *[id(cell) for cell in function.__closure__ or ()])
    known = _functions.pop(key, None)
    if known is None:
        known = Function(function)
        if code.co_name == "<lambda>":
            known.source = LambdaSource(function)
    _functions[key] = known
    if len(_functions) > KEPT:
        _functions.pop(list(_functions)[0], None)  # a list at once: other threads add to it
    return known


@entry_point
def create_warp_function(func: Callable[..., Any]) -> tuple[Function, Module]:
    """A function of Python, also a lambda, as one of the language, and the module that it is of.

    Raises TypeError for what has no source that could be read.
    """
    if not isinstance(func, FunctionType):
        raise TypeError(f"create_warp_function takes a function of Python, got {func!r}")
    made = _as_function(func)
    assert isinstance(made, Function)
    return made, get_module(func.__module__)


def _result_types(function: Function | Builtin, kinds: Sequence[Type]) -> tuple[Type, ...]:
    """The type of each value that a call with arguments of these types returns."""
    names = ", ".join(f"x{k}" for k in range(len(kinds)))
    name = function.name if function.name.isidentifier() and function.name not in ("function", "lambda") else "result"
    call = _wrapper(function, len(kinds), f"def {name}({names}):\n    return function({names})\n")
    result = traced(call, tuple(kinds)).attrs["result"]
    return result if isinstance(result, tuple) else (result,)


@lru_cache(KEPT)
def _wrapper(function: Function | Builtin, inputs: int, text: str) -> Function:
    return Function(_defined(text, function))


def _places(x: Any, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """The index of the element of an array that a thread of a launch of this shape takes; None: no array."""
    if not _is_array(x):
        return None
    axes = range(len(shape) - len(x.shape), len(shape))
    return tuple("0" if n == 1 and shape[axis] != 1 else f"i{axis}" for axis, n in zip(axes, x.shape, strict=True))


@lru_cache(KEPT)
def _kernel(
    function: Function | Builtin, places: tuple[tuple[str, ...] | None, ...], dims: int, outputs: int
) -> Kernel:
    arguments = [f"x{k}[{', '.join(at)}]" if at else f"x{k}" for k, at in enumerate(places)]
    index = ", ".join(f"i{axis}" for axis in range(dims))
    names = [*(f"x{k}" for k in range(len(places))), *(f"y{k}" for k in range(outputs))]
    lines = [f"def map_{function.name.strip('<>')}({', '.join(names)}):", f"    {index} = tid()"]
    values = ", ".join(f"v{k}" for k in range(outputs))
    lines.append(f"    {values} = function({', '.join(arguments)})")
    lines += [f"    y{k}[{index}] = v{k}" for k in range(outputs)]
    return Kernel(_defined("\n".join(lines) + "\n", function))


def _defined(text: str, function: Function | Builtin) -> Callable[..., Any]:
    """The function of Python that a text defines, in a file that only `linecache` knows."""
    file = f"<map {next(_number)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"function": function, "tid": tid, "__name__": __name__}
    tree = ast.parse(text, file)
    exec(compile(tree, file, "exec"), space)  # noqa: S102  the text above
    return space[tree.body[0].name]  # type: ignore[attr-defined, no-any-return]


def _outputs(
    out: Any, results: tuple[Type, ...], shape: tuple[int, ...], arrays: Sequence[Any], device: Any
) -> list[Any]:
    """The arrays to write to, made or checked."""
    if out is None:
        gradient, where = any(a.requires_grad for a in arrays), device or arrays[0].device
        return [empty(shape, dtype=r, device=where, requires_grad=gradient and has_float(r)) for r in results]
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(given) != len(results):
        raise TypeError(f"the function returns {len(results)} values, map got {len(given)} arrays to write to")
    for k, (a, kind) in enumerate(zip(given, results, strict=True)):
        name = "the output array" if len(given) == 1 else f"output array {k}"
        if not _is_array(a):
            raise TypeError(f"{name} is a {type(a).__name__}, expected an array of shape {shape} and dtype {kind}")
        if tuple(a.shape) != shape:
            raise TypeError(f"{name} has shape {a.shape}, expected {shape}")
        if a.dtype is not kind:
            raise TypeError(f"{name} has dtype {a.dtype}, expected {kind}")
    return given
