"""Workflows between PyTorch and tapes: tensors that share memory and gradients with arrays, optimisers, functions in
its autograd.

As everywhere in the workflow fuzzer the program runs twice; here the stand-in has tensors of its own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import sim
from tools.workflow import kernels as workflow_kernels
from tools.workflow.physics import Sim
from tools.workflow.reference import Array, Cell
from tools.workflow.run import Run, Statement, near

AVAILABLE = importlib.util.find_spec("torch") is not None
if AVAILABLE:
    import torch


# ------------------------------------------------------------------------------------------ the stand-in
class _Shared(Cell):
    """Memory that is that of a tensor, or of its gradient."""

    def __init__(self, tensor: Any, of_gradient: bool) -> None:
        self.tensor, self.of_gradient = tensor, of_gradient
        self.requires = tensor.requires_grad and not of_gradient
        self.left = np.full(tensor.numel(), 0 if of_gradient else -1)

    @property
    def value(self) -> np.ndarray:
        if self.of_gradient and self.tensor.grad is None:
            self.tensor.grad = torch.zeros_like(self.tensor)
        return (self.tensor.grad if self.of_gradient else self.tensor.detach()).numpy().ravel()

    @property
    def gradient(self) -> Array | None:
        shared = _Shared(self.tensor, True)
        return Array(None, shared, np.arange(self.tensor.numel()), 0)


class TorchSim(Sim):
    """The stand-in, with what concerns tensors."""

    def from_torch(self, tensor: Any) -> Array:
        return Array(self, _Shared(tensor, False), np.arange(tensor.numel()).reshape(tensor.shape), 0)


def squares(x: sim.array) -> sim.array:
    """A function of arrays: GAIN * squash(x)."""
    y = sim.zeros(x.shape, dtype=sim.float64, requires_grad=True)
    sim.launch(workflow_kernels.apply, x.size, [x], [y])
    return y


class TorchRun(Run):
    """A run whose worlds have PyTorch."""

    def __init__(self, fresh: Any, own_kernels: bool = False) -> None:
        super().__init__(fresh, own_kernels)
        self.world = TorchSim(fresh)
        self.real |= {"torch": torch, "function": sim.torch_function(squares)}
        self.mirror |= {"sim": self.world, "torch": torch, "function": lambda x: 1.3 * x / (1.0 + x * x)}

    def difference(self) -> str:
        for name, thing in self.mirror.items():
            if isinstance(thing, torch.Tensor):
                real = self.real[name]
                for what, a, b in (("value", real, thing), ("gradient", real.grad, thing.grad)):
                    wanted = np.zeros(thing.shape) if b is None else b.detach().numpy()
                    value = np.zeros(thing.shape) if a is None else a.detach().numpy()
                    if not near(value, wanted):
                        return f"{what} of {name}: expected {wanted}, got {value}"
                    self.report.compared += bool(what == "gradient" and wanted.any())
        return super().difference()

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Not those that share a tensor: the tensor counts."""
        yield from ((name, a) for name, a in super().arrays() if not isinstance(a.cell, _Shared))


HEAD = """\
import numpy as np, sim, torch
from tools.workflow import kernels as workflow_kernels
from tools.workflow.run import *
from tools.workflow.with_torch import squares
kernels, function = workflow_kernels, sim.torch_function(squares)"""


@dataclass
class Generator:
    """Draws statements."""

    rng: np.random.Generator

    def pick(self, things: Any) -> Any:
        things = list(things)
        return things[int(self.rng.integers(len(things)))]

    def values(self) -> str:
        return f"rand({int(self.rng.integers(1000))}, 5)"

    def statements(self) -> Iterator[Statement]:
        line = partial(Statement, calm=False)
        yield line(f"t0 = torch.tensor({self.values()}, requires_grad=True)")
        yield line(f"x0 = sim.array({self.values()}, dtype=sim.float64, requires_grad=True)")
        yield line("a0 = sim.from_torch(t0)")
        yield line("opt = torch.optim.SGD([t0], lr=0.1)")  # it takes no gradient and one of zeros for the same
        arrays = ["a0"]
        for k in range(int(self.rng.integers(1, 5))):
            a = self.pick(arrays)
            yield line(f"k{k} = sim.Tape()")
            yield line(f"loss{k} = sim.array([0.0], dtype=sim.float64, requires_grad=True)")
            yield line(f"k{k}.__enter__()")
            for _ in range(int(self.rng.integers(0, 3))):
                yield line(self.pick([
                    f"sim.launch(kernels.in_place, 5, [{a}])", f"sim.launch(kernels.apply, 5, [{a}], [x0])",
                    f"x0.assign({a})",
                    f"sim.launch(kernels.blend, 5, [{a}, {a}], [x0])", f"{a}.assign(x0)",
                    f"{a}.assign({self.values()})", *self.upsets(a),
                ]))  # fmt: skip
            yield line(f"sim.launch(kernels.total, 5, [{self.pick([a, a, 'x0'])}], [loss{k}])")
            yield line(f"k{k}.__exit__(None, None, None)")
            for _ in range(int(self.rng.integers(0, 3))):
                yield line(self.pick(self.upsets(a)))
            yield line(f"k{k}.backward(loss=loss{k})")
            for _ in range(int(self.rng.integers(0, 4))):
                yield line(self.pick(self.upsets(a)))
            if self.rng.random() < 0.3:
                arrays.append(f"a{k + 1}")
                yield line(f"a{k + 1} = sim.from_torch(t0)")
            yield line(
                self.pick(
                    [
                        f"k{k}.zero()",
                        f"k{k}.reset()",
                        f"k{k}.backward(loss=loss{k})",
                        f"k{int(self.rng.integers(k + 1))}.zero()",
                    ]
                )
            )

    def upsets(self, a: str) -> list[str]:
        return [
            "opt.step()", "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "(t0 ** 2).sum().backward()",
            "function(t0).sum().backward()",
            "(function(2.0 * t0) * t0.detach()).sum().backward()", "t0.data.mul_(0.9)",
            f"t0.grad = torch.tensor({self.values()})", "t0.grad = None", f"{a}.grad.zero_()",
            f"t0.data.copy_(torch.tensor({self.values()}))",
        ]  # fmt: skip
