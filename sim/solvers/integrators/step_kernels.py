"""The kernels of a step that do not depend on the constraints: prediction, prescribed positions, velocities.

See `implicit` for what they do.  `particle`: see `sim.constraints.particles`.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass
from functools import cache
from typing import Any

from sim.constraints.particles import particle_layout
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import logarithm
from sim.core.lang.constants import pi
from sim.core.lang.frontend.builtins import cos, max, static, stop_gradient, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_from_rotation_vector, quat_inverse, quat_rotate
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.search import lower_bound
from sim.core.lang.library.vector import length, spatial_bottom
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, float32, float64, int32, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.build.motions import MOVE_SMOOTH, SWING
from sim.model.model import Model

vec3_64 = vector(3, float64)
_TRACK_VALUES = ("move", "turn", "move_rate", "turn_rate")


@dataclass(frozen=True)
class StepKernels:
    """The kernels for one precision."""

    predict: Kernel
    finish: Kernel
    predict_bdf2: Kernel
    finish_bdf2: Kernel
    extrapolate: Kernel
    prescribe: Kernel
    correct: Kernel
    push: Kernel


@func
def two_sum(a, b):
    """The rounded sum of a and b, and what the rounding has left out, exactly (Knuth, TAOCP 2, 4.2.2, theorem B).

    The sum of both is a + b: its derivative is that of the first alone, and the second has none.
    """
    s = a + b
    part = s - a
    return s, stopped((a - (s - part)) + (b - part))


@func
def stopped(v):
    """The components of a vector as constants of derivatives."""
    return type(v)(stop_gradient(v[0]), stop_gradient(v[1]), stop_gradient(v[2]))


@func
def progress(kind: int, a: float64, b: float64, time: float64):
    """How far along its displacement a motion is at a time."""
    if kind == SWING:
        return 0.5 * (1.0 - cos(2.0 * pi * a * time))
    s = clamp((time - a) / (b - a), float64(0.0), float64(1.0))
    if kind == MOVE_SMOOTH:
        s = s * s * (3.0 - 2.0 * s)
    return s


@memoize
def track_struct(real: Scalar) -> Struct:
    """The recordings of a model, as kernels take them: its arrays `track_...`."""
    kinds = {"offset": int32, "free": int32, "time": float64, "delay": real}
    kinds |= dict.fromkeys(("about", "frame", *_TRACK_VALUES), vector(3, real))
    return Struct("tracks", {name: array_type(kind) for name, kind in kinds.items()})


def tracks_of(model: Model) -> Any:
    """Those of a model."""
    tracks = track_struct(model.dtype)()
    for name in ("offset", "free", "time", "delay", "about", "frame", *_TRACK_VALUES):
        setattr(tracks, name, getattr(model, f"track_{name}"))
    return tracks


@func
def spline(y0, v0, y1, v1, h, s):
    """The cubic polynomial with the values y0, y1 and the derivatives v0, v1 at the ends of a piece of length h."""
    rise, bend = y1 - y0, s * (1.0 - s)
    return y0 + (s * s * (3.0 - 2.0 * s)) * rise + (h * bend) * ((1.0 - s) * v0 - s * v1)


@func
def followed(tracks, group: int, time: float64):
    """How far a recording has moved its place at a time, and its rotation vector about it; zero without one."""
    if tracks.free[group] == 0:
        return recorded_at(tracks, group, time)
    delay, frame = float64(tracks.delay[group]), quat_from_rotation_vector(vec3_64(tracks.frame[group]))
    to, by = recorded_at(tracks, group, time + delay)
    since, before = recorded_at(tracks, group, delay)
    further = quat_from_rotation_vector(by) * quat_inverse(quat_from_rotation_vector(before))
    return quat_rotate(frame, to - quat_rotate(further, since)), quat_rotate(frame, logarithm(further))


@func
def recorded_at(tracks, group: int, time: float64):
    """The same of a recording as it is."""
    move, turn = vec3_64(), vec3_64()
    first, end = tracks.offset[group], tracks.offset[group + 1]
    if end > first:
        k = max(lower_bound(tracks.time, first, end, time) - 1, first)
        n = min(k + 1, end - 1)
        h = tracks.time[n] - tracks.time[k]
        s = clamp((time - tracks.time[k]) / max(h, 1e-300), float64(0.0), float64(1.0))
        m0, m1 = vec3_64(tracks.move[k]), vec3_64(tracks.move[n])
        t0, t1 = vec3_64(tracks.turn[k]), vec3_64(tracks.turn[n])
        move = spline(m0, vec3_64(tracks.move_rate[k]), m1, vec3_64(tracks.move_rate[n]), h, s)
        turn = spline(t0, vec3_64(tracks.turn_rate[k]), t1, vec3_64(tracks.turn_rate[n]), h, s)
    return move, turn


@cache
def step_kernels(real: Scalar, in_air: bool) -> StepKernels:
    """The kernels for float32 or float64, with or without drag."""
    vec3, vec3d, compensated, layout = vector(3, real), vector(3, float64), real is float32, particle_layout(real)
    Tracks = track_struct(real)
    particle_type, at_start, moved_by = layout.type(real), layout.at_start, layout.moved_by
    position, displacement = layout.position, layout.displacement

    @func
    def slowed(dx, k):
        """A displacement after drag, k = h~ d |v|: never reversed, whatever the step."""
        return dx / (1.0 + k)

    @kernel
    def predict(
        x: array[vec3],
        v: array[vec3],
        f: array[vec3],
        w: array[real],
        drag: array[real],
        gravity: array[vec3],
        dt: real,
        particle: array[particle_type],
    ):
        i = tid()
        dx, w_i, v_i, f_i, g = vec3(), w[i], v[i], f[i], gravity[0]  # whole rows, not only those of what moves
        if w_i > 0.0:
            dx = dt * v_i + (dt * dt) * (g + w_i * f_i)
            if in_air:
                dx = slowed(dx, dt * drag[i] * length(v_i))
        particle[i] = at_start(x[i], dx)

    @func
    def follows(dt_last, dt, v, v_known):
        """Whether the history of a point is that of the step before this one."""
        return dt_last == dt and v[0] == v_known[0] and v[1] == v_known[1] and v[2] == v_known[2]

    @kernel
    def predict_bdf2(
        x: array[vec3],
        v: array[vec3],
        f: array[vec3],
        dq: array[vec3],
        v_last: array[vec3],
        v_known: array[vec3],
        dt_last: array[real],
        w: array[real],
        drag: array[real],
        gravity: array[vec3],
        dt: real,
        particle: array[particle_type],
        x_ref: array[vec3],
        touched: array[int],
    ):
        i = tid()
        effective = 2.0 * dt / 3.0
        before, v_before = dt * v[i], v[i]  # without a history: as if it had moved like this
        if follows(dt_last[i], dt, v[i], v_known[i]):
            before, v_before = dq[i], v_last[i]
        ahead = before / 3.0
        dx = -ahead
        touched[i] = 0
        if w[i] > 0.0:
            faster, a = (v[i] - v_before) / 3.0, gravity[0] + w[i] * f[i]
            # all that is small first: one rounding less
            dx = effective * v[i] + effective * (faster + effective * a)
            if in_air:  # at the velocity of the end of the step, by what was before it: of second order
                v_end = 2.0 * v[i] - v_before
                k = effective * drag[i] * length(v_end)
                # What constraints will add to dx feels the air, too; where it is too thick for the step, less of that.
                more = (1.0 + k) * effective * v_end - dx
                dx = slowed(dx - slowed(slowed(slowed(k * more, k), k), k), k)
        x_ref[i] = x[i] + ahead
        particle[i] = at_start(x_ref[i], dx)

    @kernel
    def extrapolate(
        x: array[vec3],
        v: array[vec3],
        dq: array[vec3],
        v_last: array[vec3],
        v_known: array[vec3],
        dt_last: array[real],
        dt: real,
        x_end: array[vec3],
        v_end: array[vec3],
    ):
        i = tid()
        before, v_before = dt * v[i], v[i]
        if follows(dt_last[i], dt, v[i], v_known[i]):
            before, v_before = dq[i], v_last[i]
        x_end[i] = x[i] + before
        v_end[i] = 2.0 * v[i] - v_before

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
        tracks: Tracks,
        release: array[float64],
        clock: array[float64],
        dt: float64,
        x_ref: array[vec3],
        particle: array[particle_type],
        target: array[vec3],
        hold: array[real],
    ):
        k = tid()
        time = clock[0] + dt
        place = vec3d(anchor[k])
        if tracks.offset[group[k] + 1] > tracks.offset[group[k]]:
            move, turn = followed(tracks, group[k], time)
            about = vec3d(tracks.about[group[k]])
            place = about + move + quat_rotate(quat_from_rotation_vector(turn), place - about)
        for m in range(offset[group[k]], offset[group[k] + 1]):
            place += vec3d(displacement[m]) * progress(kind[m], float64(a[m]), float64(b[m]), time)
        if slot[k] < 0:
            p = point[k]
            particle[p] = at_start(x_ref[p], vec3(place - vec3d(x_ref[p])))
        else:
            target[slot[k]] = vec3(place)
            hold[slot[k]] = real(0.0) if time - 1e-6 * dt > release[group[k]] else real(1.0)

    @kernel
    def finish(
        x: array[vec3],
        low: array[vec3],
        particle: array[particle_type],
        dt: real,
        clock: array[float64],
        step: float64,
        x_out: array[vec3],
        low_out: array[vec3],
        v_out: array[vec3],
        clock_out: array[float64],
    ):
        i = tid()
        dx = displacement(particle[i], x[i])
        if compensated:
            x_out[i], low_out[i] = two_sum(x[i], dx + low[i])
        else:
            x_out[i] = position(particle[i])
        v_out[i] = dx / dt
        if i == 0:
            clock_out[0] = clock[0] + step

    @kernel
    def finish_bdf2(
        x: array[vec3],
        low: array[vec3],
        v: array[vec3],
        dq: array[vec3],
        v_last: array[vec3],
        v_known: array[vec3],
        dt_last: array[real],
        w: array[real],
        particle: array[particle_type],
        x_ref: array[vec3],
        touched: array[int],
        dt: real,
        clock: array[float64],
        step: float64,
        x_out: array[vec3],
        low_out: array[vec3],
        v_out: array[vec3],
        dq_out: array[vec3],
        v_last_out: array[vec3],
        v_known_out: array[vec3],
        dt_out: array[real],
        clock_out: array[float64],
    ):
        i = tid()
        known = follows(dt_last[i], dt, v[i], v_known[i])
        before = dt * v[i]
        if known:
            before = dq[i]
        dx = displacement(particle[i], x_ref[i])
        moved = dx + before / 3.0
        effective = 2.0 * dt / 3.0  # rounded as it is in the prediction, so that velocities do not drift
        velocity = dx / effective
        if touched[i] == 1 or (not known and w[i] == 0.0):
            velocity = moved / dt
        elif not known:  # v + h a, from x' = x + h v + h~^2 a
            velocity = v[i] + (dx - effective * v[i]) * (2.25 / dt)
        v_out[i], v_known_out[i] = velocity, velocity
        dt_out[i] = 0.0 if touched[i] == 1 else dt
        dq_out[i], v_last_out[i] = moved, v[i]
        if compensated:
            x_out[i], low_out[i] = two_sum(x[i], moved + low[i])
        else:
            x_out[i] = position(particle[i])
        if i == 0:
            clock_out[0] = clock[0] + step

    @kernel
    def correct(correction: array[vec3], particle: array[particle_type]):
        i = tid()
        particle[i] += moved_by(correction[i])

    @kernel
    def push(
        point: array[int],
        load: array[int],
        share: array[real],
        offset: array[int],
        times: array[float64],
        force: array[vec3],
        clock: array[float64],
        dt: float64,
        effective: real,
        w: array[real],
        particle: array[particle_type],
    ):
        k = tid()
        p, first, end, time = point[k], offset[load[k]], offset[load[k] + 1], clock[0] + dt
        i = max(lower_bound(times, first, end, time) - 1, first)
        j = min(i + 1, end - 1)
        s = real(clamp((time - times[i]) / max(times[j] - times[i], 1e-300), float64(0.0), float64(1.0)))
        f = share[k] * (force[i] + s * (force[j] - force[i]))
        particle[p] += moved_by((effective * effective * w[p]) * f)

    push.race_free = True  # every point is pushed once
    return StepKernels(predict, finish, predict_bdf2, finish_bdf2, extrapolate, prescribe, correct, push)


@cache
def make_turns(real: Scalar) -> Kernel:
    """The furthest [rad] that bodies `tid()` of some mechanism have turned in a step."""

    @kernel
    def note_turns(of_body: array[int], body_qd: array[vector(6, real)], dt: real, furthest: array[real]):
        i = tid()
        if of_body[i] >= 0:
            furthest[i] = max(furthest[i], dt * length(spatial_bottom(body_qd[i])))

    return note_turns


@cache
def mark_touched(slots: Slots, real: Scalar) -> Kernel:
    """A kernel, one thread per contact: 1 for the particles of those that push."""
    particles = slots.particles

    @kernel(name=f"mark_{slots.kinds}")
    def mark(points: array2d[int], multiplier: array[real], touched: array[int]):
        k = tid()
        if multiplier[k] > 0.0:
            for j in static(particles):
                touched[points[k, j]] = 1

    mark.race_free = True  # all write the same
    return mark
