"""What rigid bodies and joints of a model look like, for players and exports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.geometry import rotated
from sim.io import Rigid
from sim.model import BodyGroup, CollisionShape, ConstraintSet, Model
from sim.model.visuals import (
    BoxForm,
    CapsuleForm,
    CylinderForm,
    Form,
    SphereForm,
    Surface,
    Visual,
    equal_inertia,
    form_of,
)

LEAST_MARK, LARGEST_MARK, PROTRUDING = 0.1, 0.35, 1.25
"""Of the radius of a joint's mark: parts of half of the length of its body, and of half of the thickness, where this
lies between them."""

BESIDE = 0.05
"""A joint is beside its body from this part of the body's diagonal on."""

SIDES = {40: 24, 400: 12}
"""How round things are drawn, where there are at most so many bodies; beyond, with `FEWEST` sides."""

FEWEST = 6

LINKS = ("distance", "span")
"""Constraints that keep the distance of two points."""

SMALLEST = 0.05
"""Half of the length [m] of a body that is held and of which nothing is known."""

ALONG_X = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
"""Takes z to x, and keeps right-handed."""


def rigid_bodies(model: Model) -> list[Rigid]:
    """What is drawn on the bodies of each object, and what stands in the world: visuals, else shapes, else a body of
    equal inertia.  Planes, and balls in the world, have pictures of their own."""
    seen: dict[int, list[Surface]] = {}
    for visual in model.visuals:
        seen.setdefault(visual.body, []).append(visual.surface(_sides(model)))
    for visual in _shapes(model, {visual.body for visual in model.visuals}):
        seen.setdefault(visual.body, []).append(visual.surface(_sides(model)))
    plain = iter(_plain(model, [k for k in range(model.body_count) if k not in seen]))
    for k in range(model.body_count):
        if k not in seen:
            seen[k] = [next(plain)]
    out = [_surfaces(name, [(k, s) for k in g.bodies.tolist() for s in seen[k]]) for name, g in model.bodies.items()]
    return [*out, _surfaces("world", [(-1, s) for s in seen[-1]])] if -1 in seen else out


def solid_shapes(model: Model) -> list[CollisionShape]:
    """Those that are drawn as bodies."""
    return [s for s in model.shapes if s.kind not in ("plane", "sdf") and (s.kind != "sphere" or s.bodies[0] >= 0)]


def _shapes(model: Model, drawn: set[int]) -> list[Visual]:
    """Shapes as they are now, of bodies on which nothing is `drawn`, and of the world."""
    poses, scales = _host(model.shape_transform), _host(model.shape_scale)
    return [
        Visual(int(body), poses[k], form_of(shape.kind, scales[k], shape.surface))
        for shape in solid_shapes(model)
        for k, body in zip(shape.numbers.tolist(), shape.bodies, strict=True)
        if body < 0 or body not in drawn
    ]


def body_labels(model: Model) -> list[str]:
    """The name of each body: that of its object, and a number where this has several."""
    labels = [""] * model.body_count
    for name, group in model.bodies.items():
        for k, number in enumerate(group.bodies.tolist()):
            labels[number] = name if group.count == 1 else f"{name}.{k}"
    return labels


def joint_marks(model: Model, rigid: Sequence[Rigid]) -> Rigid | None:
    """Places and axes of the joints between bodies, of a size that fits what is drawn of them; a line where the
    distance of two of their points is kept, and from a joint beside its body to the centre of mass of this.  None
    without any."""
    low, high = _extents(model.body_count, rigid)
    sizes, com = _mark_sizes(low, high), _host(model.body_com)
    parts, links = [], []
    for s in model.constraint_sets.values():
        if s.slots.only_particles or s.slots.particles or s.constraint.points != 2:
            continue
        first, second = (_places(model, s, j) for j in range(2))
        if s.constraint.name in LINKS:
            links.append((first, second))
        elif form := MARKS.get(s.constraint.name):
            shape, triangles = form.surface(_sides(model))
            for j, (bodies, points, turns) in enumerate((first, second)):
                if s.slots.body_of[j] >= 0:
                    beside = np.maximum(low[bodies] - points, points - high[bodies]).max(axis=1)
                    apart = beside > BESIDE * np.linalg.norm(high[bodies] - low[bodies], axis=1)
                    own = bodies[apart]
                    links.append(((own, points[apart], turns[apart]), (own, com[own], turns[apart])))
            for body, at, turn in zip(*(second if s.slots.body_of[1] >= 0 else first), strict=True):
                marked = rotated(turn, sizes[body] * shape @ ALONG_X.T) + at
                parts.append((int(body), (marked, triangles)))
    if not parts and not links:
        return None
    marks = _surfaces("joints", parts) if parts else Rigid("joints", np.zeros(0, np.int32), np.zeros((0, 3)))
    bodies, points = (
        np.concatenate([own, *(end[k] for link in links for end in link)])
        for k, own in enumerate((marks.bodies, marks.points))
    )
    segments, count = [marks.segments], len(marks.points)
    for (linked, _, _), _ in links:
        here = count + np.arange(len(linked))
        segments.append(np.stack([here, here + len(linked)], axis=1).astype(np.int32))
        count += 2 * len(linked)
    return Rigid(marks.name, bodies, points, marks.triangles, np.concatenate(segments))


MARKS: dict[str, Form] = {
    "ball": SphereForm(1.0),
    "revolute": CylinderForm(0.5, 1.5),
    "prismatic": BoxForm((0.35, 0.35, 2.5)),
    "fixed": BoxForm((0.8, 0.8, 0.8)),
}
"""Joint -> what marks it, along z; a ball is the measure."""


def joined(name: str, rigid: Sequence[Rigid]) -> Rigid:
    """Several as one."""
    starts = np.cumsum([0, *(len(r.points) for r in rigid)])[:-1].astype(np.int32)
    bodies, points = (np.concatenate([getattr(r, key) for r in rigid]) for key in ("bodies", "points"))
    triangles, segments = (
        np.concatenate([getattr(r, key) + start for r, start in zip(rigid, starts, strict=True)])
        for key in ("triangles", "segments")
    )
    return Rigid(name, bodies, points, triangles, segments)


def _surfaces(name: str, parts: Sequence[tuple[int, Surface]]) -> Rigid:
    """Surfaces, each in the frame of a body."""
    made = [Rigid(name, np.full(len(x), body, np.int32), x, faces.astype(np.int32)) for body, (x, faces) in parts]
    return joined(name, made)


def _plain(model: Model, bodies: Sequence[int]) -> list[Surface]:
    """Segments of rods, and bodies of equal inertia; one without mass is a cube, as large as the others are in the
    middle."""
    mass, com, inertia = (_host(a) for a in (model.body_mass, model.body_com, model.body_inertia))
    forms = {k: equal_inertia(mass[k], inertia[k]) for k in bodies if mass[k] > 0.0}
    for group in model.bodies.values():
        for k, length in zip(group.bodies.tolist(), _segments(group), strict=False):
            forms[k] = CapsuleForm(float(np.sqrt(2.0 * inertia[k, 0, 0] / mass[k])), 0.5 * length), ALONG_X
    surface = cache(partial(_surface, sides=_sides(model)))  # many are alike
    sizes = [np.abs(surface(form)[0]).max() for form, _ in forms.values()]
    side = float(np.median(sizes)) if sizes else SMALLEST
    cube = BoxForm((side, side, side)), np.eye(3)
    out = []
    for k in bodies:
        form, axes = forms.get(k, cube)
        points, triangles = surface(form)
        out.append((points @ axes.T + com[k], triangles))
    return out


def _surface(form: Form, sides: int) -> Surface:
    return form.surface(sides)


def _sides(model: Model) -> int:
    return next((sides for most, sides in SIDES.items() if model.body_count <= most), FEWEST)


def _segments(group: BodyGroup) -> list[float]:
    """The lengths of the segments of a rod in all worlds; of other bodies none."""
    return [] if group.lengths is None else np.tile(group.lengths, group.worlds).tolist()


def _extents(count: int, rigid: Sequence[Rigid]) -> tuple[np.ndarray, np.ndarray]:
    """The box around what is drawn on each body, in its frame: corners (count, 3) [m]."""
    low, high = np.full((count + 1, 3), np.inf), np.full((count + 1, 3), -np.inf)  # the last row is the world's
    for r in rigid:
        np.minimum.at(low, r.bodies, r.points)
        np.maximum.at(high, r.bodies, r.points)
    return low[:count], high[:count]


def _mark_sizes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How large the mark of a joint is on each body [m]."""
    half = 0.5 * np.sort(high - low, axis=1)
    return np.clip(PROTRUDING * half[:, 0], LEAST_MARK * half[:, 2], LARGEST_MARK * half[:, 2])


def _places(model: Model, s: ConstraintSet, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of slot j of all constraints: bodies (n,), -1 for the world, points (n, 3) and rotations (n, 4) in their
    frames."""
    points = _host(s.placing[f"offset_{j}"])
    turns = _host(s.placing[f"frame_{j}"]) if f"frame_{j}" in s.placing else np.tile([0.0, 0, 0, 1], (s.count, 1))
    if s.slots.body_of[j] < 0:
        return np.full(s.count, -1, np.int32), points, turns
    bodies = s.points.numpy()[:, j]
    return bodies, points + _host(model.body_com)[bodies], turns


def _host(a: array) -> np.ndarray:
    return a.numpy().astype(np.float64)
