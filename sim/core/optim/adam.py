"""Adam and SGD in Warp's form: a list of arrays, and `step(grads)` that updates them in place.

A parameter is a `sim` array or a NumPy array.  Arrays of ours are written through `assign`, so that an open tape sees
the write; vectors and matrices are updated component by component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sim.core.lang.types import Homogeneous, Type, from_numpy, matrix, vector
from sim.core.optim.minimizer import State
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import add_whole_node, capturing

ParameterArray = Any
"""A NumPy array, or one of ours: with `numpy()` and `assign(values)`."""


class _Rule:
    """What Adam and SGD share: the parameters, checks of gradients, the step count, saving."""

    slots: tuple[str, ...] = ()
    """Names of the running averages, one array per parameter each: NumPy arrays, which a step changes in place."""

    def __init__(self, params: Sequence[ParameterArray] | None, lr: float):
        if not lr > 0:
            raise ValueError(f"lr = {lr}: the learning rate must be positive")
        self.lr = float(lr)
        self._steps = np.zeros(1, np.int64)
        self.params: list[ParameterArray] = []
        self._arrays: dict[str, dict[int, tuple[np.ndarray, array]]] = {}
        self._memory: dict[str, list[np.ndarray]] = {}
        if params is not None:
            self.set_params(params)

    @property
    def t(self) -> int:
        """How many steps there have been."""
        return int(self._steps[0])

    @t.setter
    def t(self, count: int) -> None:
        self._steps[0] = count

    def set_params(self, params: Sequence[ParameterArray]) -> None:
        """Choose the arrays to update, and forget all running averages; those of the same arrays as before stay."""
        if isinstance(params, np.ndarray) or hasattr(params, "numpy"):
            raise TypeError("params is one array; pass a list of arrays: [array]")
        for i, param in enumerate(params):
            if not (isinstance(param, np.ndarray) or hasattr(param, "assign")):
                raise TypeError(f"params[{i}] is a {type(param).__name__}; pass sim arrays or NumPy arrays")
            if not np.issubdtype(_values(param).dtype, np.floating):
                raise TypeError(f"params[{i}] holds {_values(param).dtype} values; only floating-point arrays can vary")
        if len(params) == len(self.params) and all(a is b for a, b in zip(params, self.params, strict=True)):
            return
        self.params = list(params)
        self._memory = {slot: [np.zeros_like(self._working(p)) for p in self.params] for slot in self.slots}
        self.reset_internal_state()

    def reset_internal_state(self) -> None:
        """Forget the running averages and the step count; the parameters stay."""
        self.t = 0
        for averages in self._memory.values():
            for average in averages:
                average[...] = 0

    def step(self, grad: Sequence[ParameterArray]) -> None:
        """One update.  grad: one array per parameter, of its shape (a `sim` array such as `param.grad`, or NumPy).

        In a capture each replay is a step more, with the rate and the gradients of then.
        """
        if capturing() is None:
            self._update(grad)
            return
        given = [*self.params, *grad]
        if not all(isinstance(a, array) for a in given):
            what = f"{type(self).__name__}.step inside of a capture takes sim arrays: of others a graph knows nothing"
            raise RuntimeError(f"{what}; pass sim.array(...), or step outside of the graph")
        memory = [average for slot in self.slots for average in self._averages(slot)]
        memory.append(array(self._steps, copy=False))
        add_whole_node(partial(self._update, list(grad)), [*given, *memory], [*self.params, *memory])

    def _update(self, grad: Sequence[ParameterArray]) -> None:
        checked = self._gradients(grad)
        self.t += 1
        for i, (param, gradient) in enumerate(zip(self.params, checked, strict=True)):
            values = self._working(param)
            _write(param, (values - self._change(i, values, gradient)).astype(_values(param).dtype, copy=False))

    def state_dict(self) -> State:
        """Step count, rate and running averages as plain arrays and scalars (copies); not the parameters."""
        state: State = {"t": self.t, "lr": self.lr}
        for slot, arrays in self._memory.items():
            state.update({f"{slot}.{i}": average.copy() for i, average in enumerate(arrays)})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The opposite of `state_dict`, for the same parameters."""
        memory: dict[str, list[np.ndarray]] = {}
        for slot, arrays in self._memory.items():
            memory[slot] = []
            for i, average in enumerate(arrays):
                saved = np.array(state[f"{slot}.{i}"])
                if saved.shape != average.shape or saved.dtype != average.dtype:
                    raise ValueError(
                        f"state['{slot}.{i}'] is {saved.dtype}{saved.shape}, but parameter {i} needs "
                        f"{average.dtype}{average.shape}: the state belongs to other parameters"
                    )
                memory[slot].append(saved)
        self.t, self.lr = int(state["t"]), float(state["lr"])
        for slot, arrays in memory.items():
            for i, saved in enumerate(arrays):
                self._memory[slot][i][...] = saved

    def _averages(self, slot: str) -> list[array]:
        """Running averages as arrays of ours, of the parameter's vectors where it has such; the same ones each time."""
        seen = self._arrays.setdefault(slot, {})
        for i, average in enumerate(self._memory.get(slot, [])):
            if i not in seen or seen[i][0] is not average:
                seen[i] = (average, _shared(average, self.params[i]))
        return [made for _, made in seen.values()]

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
            wanted = f"{type(self).__name__} parameters must be set before calling step(), got None"
            raise RuntimeError(f"{wanted}; call set_params([array])")
        if len(grads) != len(self.params):
            raise ValueError(f"step got {len(grads)} gradients for {len(self.params)} parameters")
        checked = []
        for i, (param, grad) in enumerate(zip(self.params, grads, strict=True)):
            if grad is None:
                raise ValueError(f"grads[{i}] is None: its parameter needs requires_grad=True, and the tape a backward")
            values, gradient = self._working(param), np.asarray(_values(grad))
            if not np.issubdtype(gradient.dtype, np.floating):
                wanted = f"{type(self).__name__} gradient dtype must match parameter dtype {_values(param).dtype}"
                raise TypeError(f"grads[{i}]: {wanted}, got {gradient.dtype}")
            if gradient.shape != values.shape:
                wanted = f"{type(self).__name__} gradient shape must match parameter shape {values.shape}"
                raise ValueError(f"grads[{i}]: {wanted}, got {gradient.shape}")
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

    @property
    def m(self) -> list[array]:
        """The average of the gradient of each parameter, an array on the host over the memory that a step changes."""
        return self._averages("mean")

    @property
    def v(self) -> list[array]:
        """That of its square."""
        return self._averages("square")

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


def _values(param: ParameterArray) -> np.ndarray:
    """The numbers of an array as NumPy; of a vector array with a trailing axis of components."""
    return param if isinstance(param, np.ndarray) else np.asarray(param.numpy() if hasattr(param, "numpy") else param)


def _shared(average: np.ndarray, param: ParameterArray) -> array:
    """A running average as an array over the same memory, with elements in the form of the parameter's."""
    kind = getattr(param, "dtype", None)
    component = from_numpy(average.dtype)
    element: Type = component
    if isinstance(kind, Homogeneous):
        rows, *columns = kind.shape
        element = matrix((rows, columns[0]), component) if columns else vector(rows, component)
    made: array = array(average, dtype=element, copy=False)
    return made


def _write(param: ParameterArray, values: np.ndarray) -> None:
    """Overwrite an array in place, in the way that the tape sees."""
    if isinstance(param, np.ndarray):
        param[...] = values
    else:
        param.assign(values)
