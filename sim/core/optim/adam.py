"""Adam and SGD in Warp's form: a list of arrays, and `step(grads)` that updates them in place.

A parameter is a `sim` array or a NumPy array.  Arrays of ours are written through `assign`, so that an open tape sees
the write; vectors and matrices are updated component by component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.core.optim.minimizer import State
from sim.core.runtime.devices.graph import capturing

ParameterArray = Any
"""A NumPy array, or one of ours: with `numpy()` and `assign(values)`."""


class _Rule:
    """What Adam and SGD share: the parameters, checks of gradients, the step count, saving."""

    slots: tuple[str, ...] = ()
    """Names of the running averages, one array per parameter each."""

    def __init__(self, params: Sequence[ParameterArray] | None, lr: float):
        if not lr > 0:
            raise ValueError(f"lr = {lr}: the learning rate must be positive")
        self.lr = float(lr)
        self.t = 0
        self.params: list[ParameterArray] = []
        self._memory: dict[str, list[np.ndarray]] = {}
        if params is not None:
            self.set_params(params)

    def set_params(self, params: Sequence[ParameterArray]) -> None:
        """Choose the arrays to update, and forget all running averages."""
        if isinstance(params, np.ndarray) or hasattr(params, "numpy"):
            raise TypeError("params is one array; pass a list of arrays: [array]")
        for i, param in enumerate(params):
            if not (isinstance(param, np.ndarray) or hasattr(param, "assign")):
                raise TypeError(f"params[{i}] is a {type(param).__name__}; pass sim arrays or NumPy arrays")
            if not np.issubdtype(_values(param).dtype, np.floating):
                raise TypeError(f"params[{i}] holds {_values(param).dtype} values; only floating-point arrays can vary")
        self.params = list(params)
        self.reset_internal_state()

    def reset_internal_state(self) -> None:
        """Forget the running averages and the step count; the parameters stay."""
        self.t = 0
        self._memory = {slot: [np.zeros_like(self._working(p)) for p in self.params] for slot in self.slots}

    def step(self, grads: Sequence[ParameterArray]) -> None:
        """One update.  grads: one array per parameter, of its shape (a `sim` array such as `param.grad`, or NumPy)."""
        if capturing() is not None:
            what = (
                f"{type(self).__name__}.step inside of a capture: it computes on the host, and a replay would write the"
                " same numbers again"
            )
            raise RuntimeError(f"{what}; step outside of the graph")
        checked = self._gradients(grads)
        self.t += 1
        for i, (param, gradient) in enumerate(zip(self.params, checked, strict=True)):
            values = self._working(param)
            _write(param, (values - self._change(i, values, gradient)).astype(_values(param).dtype, copy=False))

    def state_dict(self) -> State:
        """Step count, rate and running averages as plain arrays and scalars (copies); not the parameters."""
        state: State = {"t": self.t, "lr": self.lr}
        for slot, arrays in self._memory.items():
            state.update({f"{slot}.{i}": array.copy() for i, array in enumerate(arrays)})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The opposite of `state_dict`, for the same parameters."""
        memory: dict[str, list[np.ndarray]] = {}
        for slot, arrays in self._memory.items():
            memory[slot] = []
            for i, array in enumerate(arrays):
                saved = np.array(state[f"{slot}.{i}"])
                if saved.shape != array.shape or saved.dtype != array.dtype:
                    raise ValueError(
                        f"state['{slot}.{i}'] is {saved.dtype}{saved.shape}, but parameter {i} needs "
                        f"{array.dtype}{array.shape}: the state belongs to other parameters"
                    )
                memory[slot].append(saved)
        self.t, self.lr, self._memory = int(state["t"]), float(state["lr"]), memory

    def _change(self, i: int, values: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """What to subtract from parameter i; updates the running averages."""
        raise NotImplementedError(f"{type(self).__name__} has no update rule")

    @staticmethod
    def _working(param: ParameterArray) -> np.ndarray:
        """The parameter's values in at least single precision: running averages of halves lose the small gradients."""
        values = _values(param)
        return values.astype(np.result_type(values.dtype, np.float32), copy=False)

    def _gradients(self, grads: Sequence[ParameterArray]) -> list[np.ndarray]:
        """The gradients as NumPy arrays; all checks come before the first write: a refusal changes nothing."""
        if not self.params:
            raise RuntimeError(f"{type(self).__name__}.step without parameters; call set_params([array]) before")
        if len(grads) != len(self.params):
            raise ValueError(f"step got {len(grads)} gradients for {len(self.params)} parameters")
        checked = []
        for i, (param, grad) in enumerate(zip(self.params, grads, strict=True)):
            if grad is None:
                raise ValueError(f"grads[{i}] is None: its parameter needs requires_grad=True, and the tape a backward")
            values, gradient = self._working(param), np.asarray(_values(grad))
            if not np.issubdtype(gradient.dtype, np.floating):
                raise TypeError(f"grads[{i}] holds {gradient.dtype} values, its parameter {_values(param).dtype}")
            if gradient.shape != values.shape:
                raise ValueError(f"grads[{i}] has shape {gradient.shape}, its parameter {values.shape}")
            bad = int(np.count_nonzero(~np.isfinite(gradient)))
            if bad:
                raise FloatingPointError(f"grads[{i}] has {bad} non-finite values; nothing was updated")
            checked.append(gradient.astype(values.dtype, copy=False))
        return checked


class Adam(_Rule):
    """Adam: steps of about `lr` per component, whatever the size of the gradient (Kingma & Ba 2015, algorithm 1).

    params: list of arrays to update in place.  betas: decay of the averages of the gradient and of its square.
    """

    slots = ("mean", "square")

    def __init__(
        self,
        params: Sequence[ParameterArray] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas = {betas}: both must be in [0, 1)")
        self.betas = (float(betas[0]), float(betas[1]))
        self.eps = float(eps)
        super().__init__(params, lr)

    def _change(self, i: int, values: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        mean, square = self._memory["mean"][i], self._memory["square"][i]
        first, second = self.betas
        mean[...] = first * mean + (1 - first) * gradient
        square[...] = second * square + (1 - second) * gradient**2
        # The averages start at zero; dividing by 1 - beta^t takes that bias out.
        return self.lr * (mean / (1 - first**self.t)) / (np.sqrt(square / (1 - second**self.t)) + self.eps)


class SGD(_Rule):
    """Gradient descent with momentum, dampening, weight decay and Nesterov's look-ahead (Sutskever et al. 2013)."""

    slots = ("velocity",)

    def __init__(
        self,
        params: Sequence[ParameterArray] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov=True needs a positive momentum and dampening = 0")
        self.momentum, self.dampening = float(momentum), float(dampening)
        self.weight_decay, self.nesterov = float(weight_decay), bool(nesterov)
        super().__init__(params, lr)

    def _change(self, i: int, values: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * values
        if not self.momentum:
            return self.lr * gradient
        velocity = self._memory["velocity"][i]
        # The first gradient enters undamped, as in the other implementations of this form.
        velocity[...] = gradient if self.t == 1 else self.momentum * velocity + (1 - self.dampening) * gradient
        return self.lr * (gradient + self.momentum * velocity if self.nesterov else velocity)


def _values(array: ParameterArray) -> np.ndarray:
    """The numbers of an array as NumPy; of a vector array with a trailing axis of components."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.numpy() if hasattr(array, "numpy") else array)


def _write(array: ParameterArray, values: np.ndarray) -> None:
    """Overwrite an array in place, in the way that the tape sees."""
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        array.assign(values)
