"""The kernels of a step that do not depend on the constraints: prediction, prescribed positions, velocities."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass
from functools import cache

from sim.core.lang.constants import pi
from sim.core.lang.frontend.builtins import cos, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import length
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.build.motions import MOVE_SMOOTH, SWING


@dataclass(frozen=True)
class StepKernels:
    """The kernels for one precision."""

    predict: Kernel
    prescribe: Kernel
    finish: Kernel
    correct: Kernel


@cache
def step_kernels(real: Scalar, in_air: bool) -> StepKernels:
    """The kernels for float32 or float64, with or without drag."""
    vec3 = vector(3, real)

    @kernel
    def predict(
        v: array[vec3],
        f: array[vec3],
        w: array[real],
        drag: array[real],
        gravity: array[vec3],
        dt: real,
        dx: array[vec3],
    ):
        i = tid()
        if w[i] > 0.0:
            slowed = v[i]
            if in_air:
                slowed = v[i] / (1.0 + dt * drag[i] * length(v[i]))  # never reversed, whatever the step
            dx[i] = dt * slowed + (dt * dt) * (gravity[0] + w[i] * f[i])
        else:
            dx[i] = vec3()

    @func
    def progress(kind: int, a: real, b: real, time: real):
        """How far along its displacement a motion is at a time."""
        if kind == SWING:
            return 0.5 * (1.0 - cos(2.0 * pi * a * time))
        s = clamp((time - a) / (b - a), real(0.0), real(1.0))
        if kind == MOVE_SMOOTH:
            s = s * s * (3.0 - 2.0 * s)
        return s

    @kernel
    def prescribe(
        point: array[int],
        anchor: array[vec3],
        group: array[int],
        slot: array[int],
        offset: array[int],
        kind: array[int],
        displacement: array[vec3],
        a: array[real],
        b: array[real],
        clock: array[float64],
        dt: real,
        x: array[vec3],
        dx: array[vec3],
        target: array[vec3],
    ):
        k = tid()
        time = real(clock[0]) + dt
        place = anchor[k]
        for m in range(offset[group[k]], offset[group[k] + 1]):
            place += displacement[m] * progress(kind[m], a[m], b[m], time)
        if slot[k] < 0:
            dx[point[k]] = place - x[point[k]]
        else:
            target[slot[k]] = place

    @kernel
    def finish(
        x: array[vec3],
        dx: array[vec3],
        dt: real,
        clock: array[float64],
        step: float64,
        x_out: array[vec3],
        v_out: array[vec3],
        clock_out: array[float64],
    ):
        i = tid()
        x_out[i] = x[i] + dx[i]
        v_out[i] = dx[i] / dt
        if i == 0:
            clock_out[0] = clock[0] + step

    @kernel
    def correct(correction: array[vec3], dx: array[vec3]):
        i = tid()
        dx[i] += correction[i]

    return StepKernels(predict, prescribe, finish, correct)
