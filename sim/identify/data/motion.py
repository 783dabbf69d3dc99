"""One experiment as people see it: simulated, before a search and after it, and as it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.identify.data.experiments import Experiment, Markers, Simulation


@dataclass(frozen=True, eq=False)
class Motion:
    """An experiment as it is simulated, and at the start of the search if there was one."""

    after: Simulation
    before: Simulation | None

    @property
    def experiment(self) -> Experiment:
        """Which one."""
        return self.after.experiment

    @property
    def times(self) -> np.ndarray:
        """(frames + 1,) [s], with the start."""
        return np.concatenate([[0.0], self.after.times])

    def at(self, markers: Markers) -> list[np.ndarray | None]:
        """Places of markers (frames + 1, markers, 3), after and before."""
        return [
            None if s is None else np.concatenate([markers.at(s.start)[None], markers.at(s.positions)])
            for s in (self.after, self.before)
        ]

    def seen(self, markers: Markers) -> np.ndarray | None:
        """The same as recorded; nan where not seen."""
        target = self.experiment.targets.get(markers.name)
        if target is None:
            return None
        start = np.full((markers.count, 3), np.nan) if target.start is None else target.start
        return np.concatenate([start[None], target.positions])
