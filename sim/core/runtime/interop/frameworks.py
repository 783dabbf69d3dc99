"""PyTorch and JAX, optional extras: arrays that share memory with tensors, functions of ours in PyTorch's autograd.

Only `torch_function` joins the two gradients.  A tensor that is the result of other tensors has no place in our tapes,
and a program that turns it into an array would lose its gradient: that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError, SimError
from sim.core.lang.types import Struct
from sim.core.runtime.arrays.array import array
from sim.core.runtime.interop.tensors import Tensor, Torch, as_tensor, checked, link, pytorch, shared
from sim.core.runtime.memory.elements import differentiable
from sim.core.runtime.tape.tape import Tape


def from_torch(
    t: Tensor,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Tensor | array | None = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """An array that shares the memory of a tensor, on the CPU or a GPU.

    On a GPU what PyTorch has told its stream comes before what the array's device is told next.  After that the two are
    in order by themselves as long as PyTorch works on its default stream; else use `Stream` and events.
    dtype: the element type; a composite one, such as vec3, takes its components from the last axes.
    requires_grad: None takes it from the tensor.  Then the gradient is shared too: it is `t.grad`, whichever
        tensor that is when the gradient is asked for, and `Tape.backward` adds to it; where there is none
        (`optimizer.zero_grad()`) zeros are made.
    grad: a tensor, or an array, that holds the gradient instead.  retain_grad: see `array.retain_grad`.
    return_ctype: taken for Warp's programs: what kernels take is the array.
    Raises GradientError for a tensor that is the result of other tensors: its gradient would not reach them.  A tensor
    that gets other memory afterwards (`t.data = ...`) is an error when the gradient is asked for.
    """
    torch = pytorch()
    checked(t, torch, "the argument of from_torch")
    if requires_grad is None:
        requires_grad = t.requires_grad or grad is not None
    if requires_grad and not t.is_leaf:
        raise GradientError(
            "this tensor is the result of other tensors: a gradient of the array would not reach them",
            hint="wrap the launches as sim.torch_function(f), or pass t.detach()",
        )
    made = shared(t, dtype, torch)
    if requires_grad and isinstance(grad, array):
        made.grad = grad
    elif requires_grad:
        if grad is not None:
            checked(grad, torch, "the gradient")
        link(made, t, torch, owns=True, given=grad)
    if retain_grad:
        made.retain_grad = True
    return made


def to_torch(a: array, requires_grad: bool | None = None) -> Tensor:
    """A tensor on the memory of an array, of shape `shape` + component shape; on a GPU in stream order (`from_torch`).

    requires_grad: None takes it from the array.  Then `tensor.grad` shares the gradient of the array, whichever of the
        two is replaced.
    A tape cannot see what PyTorch writes there: raises GradientError while one is recording, or still needs the values.
    """
    torch = pytorch()
    if not isinstance(a, array):
        raise TypeError(f"to_torch takes an array, not a {type(a).__name__}")
    if not a.may_be_written():
        raise GradientError(
            "a tape that is recording, or refuses overwrites, cannot see what PyTorch does with this memory",
            hint="leave its `with` block first, or hand over a copy: torch.tensor(a.numpy())",
        )
    if isinstance(a.dtype, Struct):
        raise TypeError(f"elements of struct {a.dtype} are no tensor; take one field, or use a.numpy()")
    tensor = as_tensor(a, torch)
    wanted = a.requires_grad if requires_grad is None else requires_grad
    if wanted:
        tensor.requires_grad_(True)
        if a.requires_grad:
            link(a, tensor, torch, owns=False)
    return tensor


def torch_function(function: Callable[..., Any], dtypes: Sequence[Any] = ()) -> Callable[..., Any]:
    """A function of arrays as a function of tensors, which PyTorch's autograd differentiates.

    function: takes an array where a tensor is given, anything else as it is; launches kernels; returns an array or a
        tuple of arrays.  What depends on an input with a gradient needs `requires_grad=True` in there, as on any tape.
    dtypes: element types by position, where they are not scalars: `dtypes=[sim.vec3]`.

    The arrays are copies: neither the values of tensors nor the gradients that PyTorch hands over are ever changed.
    Calls may be mixed and repeated, each has a tape of its own.  First derivatives only.  Arrays with a gradient that
    the function knows from elsewhere get theirs added to `.grad`, as by any tape.
    """
    torch = pytorch()

    class Final(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Passes a gradient on that cannot be differentiated."""

        @staticmethod
        def forward(ctx: Any, gradient: Any) -> Any:
            return gradient.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise GradientError(
                "a torch_function has first derivatives only", hint="for second ones use sim.autograd.hvp"
            )

    class Bridge(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            arrays = [
                _copied_in(a, f"argument {k}", dtypes[k] if k < len(dtypes) else None, torch)
                for k, a in enumerate(args)
            ]
            for a, wanted in zip(arrays, ctx.needs_input_grad, strict=True):
                if wanted:
                    a.requires_grad = True
            ctx.shapes = [a.shape if isinstance(a, torch.Tensor) else None for a in args]
            ctx.inputs, ctx.tape = arrays, Tape()
            if any(ctx.needs_input_grad):
                with ctx.tape:
                    results = function(*arrays)
            else:
                results = function(*arrays)
            single = not isinstance(results, tuple)
            ctx.outputs = (results,) if single else results
            for k, out in enumerate(ctx.outputs):
                if not isinstance(out, array):
                    raise TypeError(f"a torch_function returns arrays; result {k} is a {type(out).__name__}")
                if any(ctx.needs_input_grad) and differentiable(out.dtype) and not out.requires_grad:
                    raise GradientError(
                        f"result {k} of a torch_function, an array of shape {out.shape}, has no gradient",
                        hint="make it with requires_grad=True",
                    )
            ctx.set_materialize_grads(False)
            tensors = tuple(_copied_out(out, torch) for out in ctx.outputs)
            ctx.mark_non_differentiable(*(t for t in tensors if not t.is_floating_point()))
            return tensors[0] if single else tensors

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            for a in ctx.inputs:
                if isinstance(a, array) and a.grad is not None:
                    a.grad.zero_()
            seeds: dict[array, array] = {}
            for out, g in zip(ctx.outputs, gradients, strict=True):
                if g is not None and differentiable(out.dtype):
                    host, before = g.detach().numpy(), seeds.get(out)
                    seeds[out] = array(host if before is None else host + before.numpy(), dtype=out.dtype).reshape(
                        out.shape
                    )
            if seeds:
                ctx.tape.backward(grads=seeds)
            results = [
                _copied_out(a.grad, torch).reshape(shape) if wanted else None
                for a, shape, wanted in zip(ctx.inputs, ctx.shapes, ctx.needs_input_grad, strict=True)
            ]
            if torch.is_grad_enabled():  # create_graph=True: these results may be differentiated again
                results = [r if r is None else Final.apply(r.requires_grad_()) for r in results]
            return tuple(results)

    def wrapped(*args: Any) -> Any:
        return Bridge.apply(*args)

    wrapped.__name__ = getattr(function, "__name__", "torch_function")
    wrapped.__doc__ = function.__doc__
    return wrapped


def _copied_in(value: Any, what: str, dtype: Any, torch: Torch) -> Any:
    """A tensor as an array of its own; anything else as it is."""
    return (
        array(checked(value, torch, what).detach().numpy(), dtype=dtype, device="cpu")
        if isinstance(value, torch.Tensor)
        else value
    )


def _copied_out(a: array, torch: Torch) -> Tensor:
    """The values of an array as a tensor of its own."""
    return torch.from_numpy(np.array(a.device.numpy(a)))


def jax_module() -> Any:
    """The module `jax`.  Raises SimError where it is not installed."""
    try:
        import jax
    except ImportError:
        raise SimError("JAX is not installed; install it with `pip install jax`") from None
    return jax


def from_jax(values: Any, dtype: Any = None) -> array:
    """An array on the CPU with a copy of the values of a JAX array, through DLPack: JAX arrays never change, ours do.

    Raises TypeError for anything else, GradientError inside of functions that JAX transforms: no gradient crosses over.
    """
    jax = jax_module()
    if isinstance(values, jax.core.Tracer):
        raise GradientError(
            "from_jax inside of a function that JAX differentiates or compiles: there are no values yet, and no"
            " gradient could come back",
            hint="call it outside of jax.grad, jax.jit and jax.vmap",
        )
    if not isinstance(values, jax.Array):
        raise TypeError(f"from_jax takes a JAX array, not a {type(values).__name__}")
    made: array = array(np.from_dlpack(jax.device_get(values)), dtype=dtype, device="cpu")
    return made


def to_jax(a: array) -> Any:
    """A JAX array with a copy of the values, of shape `shape` + component shape; no gradient crosses over.

    Raises TypeError for structs, and for 64-bit numbers where JAX would shorten them.
    """
    jax = jax_module()
    if not isinstance(a, array):
        raise TypeError(f"to_jax takes an array, not a {type(a).__name__}")
    host = np.array(a.device.numpy(a))
    if host.dtype.names:
        raise TypeError(f"elements of struct {a.dtype} are no JAX array; take one field, or use a.numpy()")
    if host.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
        raise TypeError(
            f"JAX would shorten {host.dtype} numbers to 32 bits; call jax.config.update('jax_enable_x64', True), or"
            " hand over an array of 32-bit numbers"
        )
    return jax.numpy.asarray(host)
