"""Material values of a model that experiments set and parameters are bound to: written for a while, and taken back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from weakref import WeakKeyDictionary

import numpy as np

from sim.identify.data.experiments import Experiment
from sim.identify.parameters.parameters import Parameter
from sim.model import Model

_locks: WeakKeyDictionary[Model, RLock] = WeakKeyDictionary()
"""One for each model: problems write their values to it, and threads take turns."""


class MaterialValues:
    """What experiments and parameters make of a model."""

    def __init__(self, model: Model, parameters: Sequence[Parameter], experiments: Sequence[Experiment]) -> None:
        self.model, self.parameters = model, parameters
        self.bound = {b.path for p in parameters for b in p.bindings}
        self.paths = sorted(self.bound | {path for e in experiments for path in e.settings})
        # What a value is before any experiment or parameter changes it.
        self._base: dict[str, np.ndarray] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, experiments and parameters may be written to the model, which has its values again, however it ends.

        No other thread does so at the same time.
        """
        with _locks.setdefault(self.model, RLock()):
            arrays = {path: self.model[path] for path in self.paths}
            self._base = {path: np.array(a.device.numpy(a), dtype=np.float64) for path, a in arrays.items()}
            try:
                yield
            finally:
                for path, value in self._base.items():
                    self.model[path].assign(value)

    def of(self, values: Mapping[str, np.ndarray], experiment: Experiment | None = None) -> dict[str, np.ndarray]:
        """Material path -> value in the array's shape, of what the experiment sets and the parameters are bound to.

        values: of the parameters, by name.  Without an experiment what differs from one to another is left out.
        """
        out = {} if experiment is None else dict(experiment.settings)
        for p in self.parameters:
            if p.experiments and experiment is None:
                continue
            value = values[p.name] if experiment is None else p.of(values[p.name], experiment.name)
            for b in p.bindings:
                out[b.path] = b.scatter(value, out.get(b.path, self._base[b.path]))
        return out

    def write(self, experiment: Experiment, values: Mapping[str, np.ndarray]) -> None:
        """The model's values for one experiment."""
        for path, value in {**self._base, **self.of(values, experiment)}.items():
            self.model[path].assign(value)

    def add_gradients(self, experiment: Experiment, by_value: dict[str, np.ndarray]) -> None:
        """Adds what backward left in the gradients of the material values to those by the parameters."""
        for p in self.parameters:
            shape = p.of(by_value[p.name], experiment.name).shape
            for b in p.bindings:
                gradient = self.model[b.path].grad
                if gradient is None:
                    raise ValueError(f"{b.path!r} has no gradient; make the model with requires_grad=True")
                total = b.pull_back(gradient.numpy().astype(np.float64), shape)
                if p.experiments:
                    by_value[p.name][p.experiments.index(experiment.name)] += total
                else:
                    by_value[p.name] = by_value[p.name] + total
