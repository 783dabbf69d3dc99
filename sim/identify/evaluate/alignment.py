"""Alignment of recordings with their simulations, at every evaluation: the inner problem of a separable fit.

What the loss is at given parameters is its least value over the alignment, found by Gauss-Newton steps on the host.
The gradient by the parameters is then that at the alignment found (the envelope theorem), and differences of residuals,
each with its own alignment, are the Jacobian that is projected off it: standard errors that follow from it are those of
the joint fit (variable projection: G. Golub, V. Pereyra, 1973).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Scalar, float64, matrix, scalar_of, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.identify.data.experiments import TimeGrid
from sim.identify.data.registration import Alignment, Registration, rotation_vector, stencil
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.match import PreparedMatch

MOST = 30
"""Steps of the inner problem."""
DONE = 1e-20
"""Of the loss, which is 1 at the noise: what a step may still promise."""
STEADY = 1e-9
"""Relative change of estimated noise at which it and the alignment are found."""
FLAT = 1e-10
"""Eigenvalues, relative to the largest of a matrix scaled to a diagonal of one, of directions that nothing depends on:
the turn of markers on a line, the shift of displacements."""


@dataclass(frozen=True, eq=False)
class InnerProblem:
    """The alignment of one experiment.

    parts: what is compared, with weights in the loss; paths: places (frames + 1, markers, 3) [m] of the markers of
    each in the simulation, with the start.
    """

    registration: Registration
    schedule: TimeGrid
    parts: Sequence[tuple[PreparedMatch, float]]
    paths: Sequence[np.ndarray]

    def residuals(self, found: Alignment) -> list[Residuals]:
        """Those of all parts."""
        return [part.of_places(seen) for (part, _), (seen, _) in zip(self.parts, self.seen(found), strict=True)]

    def jacobians(self, found: Alignment) -> list[np.ndarray]:
        """d residuals / d (time, a turn further, shift): (k, markers, 3, 7) of each part, its noise being as it is."""
        rotation, out = found.rotation, []
        for (part, _), (seen, velocity), own in zip(self.parts, self.seen(found), self.residuals(found), strict=True):
            local = seen - self.registration.pivot
            columns = [velocity]
            columns += [np.cross(local, axis) for axis in np.eye(3)]
            columns += [np.broadcast_to(-rotation[i], seen.shape) for i in range(3)]
            used = part.weight.numpy()[..., None] > 0
            out.append(np.stack([np.where(used, part.difference(c) / own.noise, 0.0) for c in columns], axis=-1))
        return out

    def solve(self) -> Alignment:
        """The best one: of the clock by steps from the best of all frames, of the axes in closed form.

        Noise that is estimated is found in turns with it, until it stays."""
        reach, fps = self.registration.time, self.schedule.fps
        whole = int(reach * fps + 1e-6)  # an oscillation fits itself a period later as well
        found = min((self._framed(k / fps) for k in range(-whole, whole + 1)), key=self.loss)
        if not any(part.estimated for part, _ in self.parts):
            return self._improved(found)
        noise: np.ndarray | None = None
        for _ in range(MOST):
            fixed = self._at_noise_of(found)
            before, noise = noise, np.concatenate([np.ravel(part.noise) for part, _ in fixed.parts])
            if before is not None and np.allclose(noise, before, rtol=STEADY, atol=0.0):
                break
            found = fixed._improved(fixed._framed(found.time) if fixed._closed else found)
        return found

    def _improved(self, found: Alignment) -> Alignment:
        """By steps from one nearby, the noise being known."""
        reach = self.registration.time
        if not self._closed:
            return self._descend(found)
        before: tuple[float, float] | None = None
        for _ in range(MOST if reach else 0):
            slope, curve = self._by_time(found)
            if before is not None and found.time != before[0]:
                own = (slope - before[1]) / (found.time - before[0])
                curve = float(np.clip(own, 0.2 * curve, 5.0 * curve))  # the secant's, where it can be believed
            time = float(np.clip(found.time - slope / curve, -reach, reach)) if curve > 0.0 else found.time
            if time == found.time or slope * (found.time - time) <= DONE:
                break
            before, found = (found.time, slope), self._framed(time)
        return found

    def loss(self, found: Alignment) -> float:
        """The experiment's part of the loss there."""
        return sum(weight * r.loss for (_, weight), r in zip(self.parts, self.residuals(found), strict=True))

    # ------------------------------------------------------------------------------------------ inside
    def _at_noise_of(self, found: Alignment) -> "InnerProblem":
        """The problem as if the noise that is found there were known."""
        fixed = [part.at_noise_of(seen) for (part, _), (seen, _) in zip(self.parts, self.seen(found), strict=True)]
        return replace(self, parts=[(part, weight) for part, (_, weight) in zip(fixed, self.parts, strict=True)])

    @property
    def _closed(self) -> bool:
        """Whether the frame has a closed form: all residuals count as squares, alike along all axes."""
        alike = all(np.ptp(part.noise, axis=1).max() == 0.0 for part, _ in self.parts)
        return all(np.isinf(part.term.huber) for part, _ in self.parts) and (alike or not self.registration.frame)

    def _by_time(self, found: Alignment) -> tuple[float, float]:
        """Half of the first and second derivative of the loss by the offset, the frame following."""
        A, g = self._normal(found)
        along = 0.0
        if self.registration.frame:
            along = A[0, 1:] @ pseudo_inverse(A[1:, 1:]) @ A[1:, 0]
        return float(g[0]), float(A[0, 0] - along)

    def _descend(self, found: Alignment) -> Alignment:
        """By Gauss-Newton steps in everything: what is cut off beyond `huber` has no closed form."""
        loss = self.loss(found)
        free = np.repeat([self.registration.time > 0.0, self.registration.frame], [1, 6])
        for _ in range(MOST):
            moving = free & ~self._held(found)
            for bounding in (False, True):  # by the curvature that there is; where that fails, by one that bounds it
                A, g = self._normal(found, bounding)
                step = np.zeros(7)
                step[moving] = -pseudo_inverse(A[np.ix_(moving, moving)]) @ g[moving]
                time = float(np.clip(found.time + step[0], -self.registration.time, self.registration.time))
                there = Alignment(time, found.turned(step[1:4]), found.shift + step[4:])
                value = self.loss(there)
                if value < loss:
                    break
            if value >= loss or -g @ step <= DONE:
                break
            found, loss = there, value
        return found

    def _held(self, found: Alignment) -> np.ndarray:
        """Which of the seven stand on a bound beyond which the loss goes on falling."""
        out = np.zeros(7, bool)
        if abs(found.time) >= self.registration.time:
            out[0] = self._normal(found)[1][0] * found.time < 0.0
        return out

    def _framed(self, time: float) -> Alignment:
        """The frame of least squares at an offset of time (W. Kabsch, 1976): of places about their means, of
        differences as they are."""
        if not self.registration.frame:
            return Alignment(time)
        c = self.registration.pivot
        pairs = []  # of what is recorded: its weight, what it is, and what it is in the simulation; is it a place?
        for (part, weight), (seen, _) in zip(self.parts, self.seen(Alignment(time)), strict=True):
            place = part.term.compare == "position"
            factor = weight * part.weight.numpy() / part.noise[:, 0] ** 2
            pairs.append((factor, part.wanted.numpy() - c * place, part.difference(seen) - c * place, place))
        places = [(w, y, x) for w, y, x, place in pairs if place]
        total = sum(float(w.sum()) for w, _, _ in places) or 1.0
        y_mean, x_mean = (
            sum((np.einsum("fm,fma->a", w, (y, x)[k]) for w, y, x in places), np.zeros(3)) / total for k in range(2)
        )
        M = sum(np.einsum("fm,fma,fmb->ab", w, x - x_mean * place, y - y_mean * place) for w, y, x, place in pairs)
        U, _, Vt = np.linalg.svd(M)
        U[:, 2] *= np.sign(np.linalg.det(U) * np.linalg.det(Vt))
        rotation = U @ Vt
        return Alignment(time, rotation_vector(rotation), (x_mean - rotation @ y_mean) * bool(places))

    def _normal(self, found: Alignment, bounding: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """J' W J (7, 7) and J' W r (7,) of the residuals, with weights as they are or that bound them."""
        A, g = np.zeros((7, 7)), np.zeros(7)
        for (_, weight), part, J in zip(self.parts, self.residuals(found), self.jacobians(found), strict=True):
            how = part.secant if bounding else part.curvature
            A += weight * np.einsum("fmai,fma,fmaj->ij", J, how, J)
            g += weight * np.einsum("fmai,fm,fma->i", J, part.weight, part.score)
        return A, g

    def seen(self, found: Alignment) -> list[tuple[np.ndarray, np.ndarray]]:
        """Places (frames, markers, 3) as the recording sees them, and velocities, of each part."""
        c, R = self.registration.pivot, found.rotation
        if not self.registration.time:
            return [((path[1:] - c - found.shift) @ R + c, np.zeros(path[1:].shape)) for path in self.paths]
        known = self.registration
        times = stencil(self.schedule.frames, self.schedule.fps, found.time, known.at_rest, known.lead)
        return [((times.at(path) - c - found.shift) @ R + c, times.velocity(path) @ R) for path in self.paths]


def pseudo_inverse(A: np.ndarray) -> np.ndarray:
    """Of a symmetric matrix, whatever the units; zero along directions that are `FLAT`."""
    scale = np.sqrt(np.diagonal(A))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(A / np.outer(scale, scale))
    good = values > FLAT
    return (vectors[:, good] / values[good]) @ vectors[:, good].T / np.outer(scale, scale)


def as_recorded(registration: Registration, schedule: TimeGrid, found: Alignment, q: array, start: array) -> array:
    """All points (frames, points) vec3 as the recording sees them, from a rollout q and its start (points,).

    Differentiable by these; the alignment is a constant.
    """
    out = empty(q.shape, q.dtype, q.device, requires_grad=q.requires_grad)
    count, fps = schedule.frames, schedule.fps
    if registration.time:
        times = stencil(count, fps, found.time, registration.at_rest, registration.lead)
        frames, weights = times.frames, times.weights
    else:
        frames, weights = np.arange(1, count + 1)[:, None], np.ones((count, 1))
    device, vec3d, mat33 = q.device, vector(3, float64), matrix((3, 3), float64)
    table = [array(frames, dtype=int, device=device), array(weights, dtype=float64, device=device)]
    frame = [mat33(found.rotation.T), vec3d(registration.pivot), vec3d(registration.pivot + found.shift)]
    launch(_kernel(scalar_of(q.dtype)), q.shape, [q, start, *table, *frame], [out])
    return out


@cache
def _kernel(real: Scalar) -> Kernel:
    vec3, vec3d, mat33 = vector(3, real), vector(3, float64), matrix((3, 3), float64)

    @kernel
    def see_as_recorded(
        q: array2d[vec3],
        start: array[vec3],
        frames: array2d[int],
        weights: array2d[float64],
        back: mat33,
        pivot: vec3d,
        center: vec3d,
        out: array2d[vec3],
    ):
        k, i = tid()
        place = vec3d()
        for j in range(frames.shape[1]):
            frame = frames[k, j]
            if frame == 0:
                place += weights[k, j] * vec3d(start[i])
            else:
                place += weights[k, j] * vec3d(q[frame - 1, i])
        out[k, i] = vec3(pivot + back @ (place - center))

    return see_as_recorded
