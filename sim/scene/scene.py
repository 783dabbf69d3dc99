"""`Scene`: what `load_scene` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sim.core.runtime.devices.device import DeviceLike
from sim.identify.problem import Problem
from sim.scene.build.problem import PRECISION, build_problem
from sim.scene.validate.document import Document


@dataclass(frozen=True, eq=False, repr=False)
class Scene(Document):
    """A valid scene, that can be built."""

    def build(self, device: DeviceLike = None, dtype: Any = PRECISION) -> Problem:
        """Model, solver, experiments, parameters and loss; reads meshes and recordings.

        Raises `SceneError` with everything that is wrong with them.
        """
        return build_problem(self, device, dtype)
