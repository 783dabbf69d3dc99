"""What a run looks like, for players and exports: bodies, shapes, recordings, goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sim.identify.data.experiments import Experiment, Markers, Simulation
from sim.identify.data.registration import Alignment
from sim.identify.evaluate.evaluator import ContactLook
from sim.identify.losses.terms.base import trajectory_terms
from sim.identify.problem import Problem
from sim.identify.report.contacts import contact_layers
from sim.identify.report.rigid import body_labels, joined, joint_marks, rigid_bodies, solid_shapes
from sim.io import COLORS, Body, Frames, Layer, Recording, Rigid, Scenery, Shape, Take, Tint, body, rigid_layer
from sim.model import Model

Simulations = Mapping[str, Simulation]


def takes(
    problem: Problem,
    before: Simulations,
    after: Simulations | None,
    found: np.ndarray | None = None,
    contacts: Sequence[ContactLook] = (),
) -> list[Take]:
    """What the player shows of each experiment: targets and goals, the start, and what was found.

    The first frame is the state at t = 0, frame k after it the state at k / fps.  found: the coordinates of `after`;
    contacts: of that, or of the start where nothing was sought.
    """
    up = _up(problem.model).tolist()
    bodies = [_without_inside(b) for b in _drawn(problem.model)]
    tints = _tints(problem, bodies)
    simulated = partial(_simulated, bodies)
    out = []
    for e in problem.experiments:
        first, rigid = before[e.name], _rigid(problem, None, e)
        if after is None:
            last, side = first, ""
            layers = simulated(*rigid, "simulation", _frames(first), "")
        else:
            last, side = after[e.name], "after"
            layers = simulated(*rigid, "before", _frames(first), "before")
            layers += simulated(*_rigid(problem, found, e), "after", _frames(last), "after", tints)
        layers += _sites(problem, last, side)
        for name, target in e.targets.items():
            unseen = np.full((problem.markers[name].count, 3), np.nan)
            seen = _from_start(unseen if target.start is None else target.start, target.positions)
            layers.append(Layer(f"target {name}", seen, point_size=7, color=COLORS["target"], trail=True))
            path, color = _followed(problem.markers[name], last), COLORS["after"]
            layers.append(
                Layer(f"markers {name}", path, point_size=5, color=color, visible=False, trail=True, side=side)
            )
        layers += _goals(problem, e, first, None if after is None else last)
        for look in contacts:
            if any(other.name == e.name for other in look.experiments):
                layers += contact_layers(side, look.frames, _size(layers), side)
        times = np.concatenate([[0.0], e.schedule.times]).tolist()
        out.append(Take(e.name, layers, _shapes(problem.model, e.settings), times, up))
    return out


def motion(model: Model, name: str, frames: Frames) -> Take:
    """Frames of a model alone, for the player: without recordings."""
    bodies = [_without_inside(b) for b in _drawn(model)]
    rigid = rigid_bodies(model) if model.body_count or model.visuals or solid_shapes(model) else []
    joints = joint_marks(model, rigid) if rigid else None
    layers = _simulated(bodies, rigid, joints, name, frames, "")
    return Take(name, layers, _shapes(model, {}), frames.time.tolist(), _up(model).tolist())


def at_start(problem: Problem, e: Experiment) -> Take:
    """Where an experiment begins: nothing is simulated."""
    frame = Frames(problem.start_positions(e)[None], np.zeros(1), problem.model.body_q.numpy()[None])
    return motion(problem.model, e.name, frame)


def as_seen(problem: Problem, simulation: Simulation) -> Take:
    """A simulation beside its recording, while a search goes on."""
    e = simulation.experiment
    take = motion(problem.model, e.name, _frames(simulation))
    return replace(take, layers=[*take.layers, *_targets(problem, e)])


def _targets(problem: Problem, e: Experiment) -> list[Layer]:
    """What was recorded of an experiment, as its clock and its axes say."""
    layers = []
    for name, target in e.targets.items():
        unseen = np.full((problem.markers[name].count, 3), np.nan)
        seen = _from_start(unseen if target.start is None else target.start, target.positions)
        if e.registration is not None:
            seen = e.registration.in_model(seen, e.schedule.fps, Alignment())
        layers.append(Layer(f"target {name}", seen, point_size=7, color=COLORS["target"], trail=True))
    return layers


def _frames(simulation: Simulation) -> Frames:
    """Of a simulation, the start first."""
    times = np.concatenate([[0.0], simulation.times])
    return Frames(_from_start(simulation.start, simulation.positions), times, simulation.poses_from_start)


def _size(layers: Sequence[Layer]) -> float:
    """Of what moves, at its start [m]: the median over the layers."""
    spans = [np.linalg.norm(np.ptp(layer.places()[0], axis=0)) for layer in layers]
    return float(np.median(np.nan_to_num(spans))) if spans else 0.0


def _sites(problem: Problem, simulation: Simulation, side: str) -> list[Layer]:
    """The sites of bodies, for those who want to see them."""
    count = problem.model.particle_count
    if problem.model.point_count == count:
        return []
    path, color = _from_start(simulation.start[count:], simulation.positions[:, count:]), COLORS[side or "after"]
    return [Layer("sites", path, point_size=5, color=color, visible=False, trail=True, side=side)]


def _goals(problem: Problem, e: Experiment, before: Simulation, after: Simulation | None) -> list[Layer]:
    """The points that markers should reach, and the paths of the centres of those markers."""
    goals = [t.goal for t in trajectory_terms(problem.terms) if t.goal is not None and t.counts(e)]
    layers = []
    for name in dict.fromkeys(goal.markers for goal in goals):
        markers = problem.markers[name]
        sides = [("before", before), ("after", after)] if after is not None else [("", before)]
        for side, simulation in sides:
            assert simulation is not None
            centre = _followed(markers, simulation).mean(axis=1, keepdims=True)
            name_and_side, color = f"centre of {name}{f', {side}' * bool(side)}", COLORS[side or "after"]
            layers.append(Layer(name_and_side, centre, point_size=6, color=color, trail=True, side=side))
        points = np.array([goal.point for goal in goals if goal.markers == name])
        layers.append(Layer(f"goal of {name}", points[None], point_size=12, color=COLORS["goal"], behind=0.8))
    return layers


def _followed(markers: Markers, simulation: Simulation) -> np.ndarray:
    return _from_start(markers.at(simulation.start), markers.at(simulation.positions))


def _from_start(start: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Frames (k + 1, n, 3) from the one at t = 0 (n, 3) and those after it (k, n, 3)."""
    return np.concatenate([start[None], positions])


def _simulated(
    bodies: list[Body],
    rigid: list[Rigid],
    joints: Rigid | None,
    name: str,
    frames: Frames,
    side: str,
    tints: Sequence[Tint] = (),
) -> list[Layer]:
    """All that a simulation moves: what deforms, rigid bodies, joints."""
    layers = [_bodies(bodies, name, frames, side, tints)] if bodies else []
    look = {"side": side, "opacity": 0.3 if side == "before" else 1.0}
    poses = frames.body_q
    if rigid:
        title = f"{name}, bodies" if bodies else name
        layers.append(rigid_layer(title, joined(name, rigid), poses, color=COLORS[side or "after"], **look))
    if joints is not None:
        layers.append(
            rigid_layer(f"{name}, joints" if side else "joints", joints, poses, color=COLORS["joint"], **look)
        )
    return layers


def _bodies(bodies: list[Body], name: str, frames: Frames, side: str, tints: Sequence[Tint] = ()) -> Layer:
    """All bodies as one layer: surfaces, links, and dots where there is no surface."""
    counts = [len(b.points) for b in bodies]
    starts = np.cumsum([0, *counts[:-1]])
    places = [b.over(frames) for b in bodies]
    triangles = np.concatenate([b.triangles + start for b, start in zip(bodies, starts, strict=True)])
    segments = np.concatenate([b.segments + start for b, start in zip(bodies, starts, strict=True)])
    dots = [
        np.arange(start, start + count)
        for b, start, count in zip(bodies, starts, counts, strict=True)
        if not len(b.triangles)
    ]
    return Layer(
        name,
        np.concatenate(places, axis=1),
        triangles if len(triangles) else None,
        segments if len(segments) else None,
        point_size=8.0 if dots else 0.0,
        color=COLORS[side or "after"],
        opacity=0.3 if side == "before" else 1.0,
        dots=np.concatenate(dots) if dots else None,
        side=side,
        tints=tints,
    )


def _tints(problem: Problem, bodies: list[Body]) -> list[Tint]:
    """What was found element by element, point by point or region by region, at the places of the bodies."""
    out = []
    reached = {r.path: p for p in problem.sought if p.per in ("element", "point", "region") for r in p.bindings}
    for path, p in reached.items():
        label, _, key = path.partition(".")
        group, values = problem.model.groups.get(label), problem.model[path].numpy().astype(np.float64)
        if group is None or values.ndim != 1:
            continue
        elements = group.elements.get(key.partition(".")[0]) if "." in key else group.points[:, None]
        if elements is None or len(elements) != len(values) or np.ptp(values) == 0.0:
            continue
        log = p.transform.name == "log"
        at_points = _mean_at_points(np.log(values) if log else values, elements, problem.model.point_count)
        places = np.concatenate([np.einsum("nk,nk->n", b.weights, at_points[b.points]) for b in bodies])
        name = p.name.partition(".")[0] if p.per == "region" else p.name
        out.append(
            Tint(f"{name} ({path})" if len(p.bindings) > 1 else name, p.unit, np.exp(places) if log else places, log)
        )
    return out


def _mean_at_points(values: np.ndarray, elements: np.ndarray, count: int) -> np.ndarray:
    """The mean (count,) of the values (n,) of the elements (n, k) that each point belongs to; nan where to none."""
    flat = elements.reshape(-1)
    total = np.bincount(flat, np.repeat(values, elements.shape[1]), minlength=count)
    share = np.bincount(flat, minlength=count)
    return np.divide(total, share, out=np.full(count, np.nan), where=share > 0)


def _without_inside(b: Body) -> Body:
    """Of a body with a surface only what is seen of it."""
    if not len(b.triangles):
        return b
    used, places = np.unique(np.concatenate([b.triangles.reshape(-1), b.segments.reshape(-1)]), return_inverse=True)
    places = places.astype(np.int32)
    triangles, segments = np.split(places, [b.triangles.size])
    return Body(b.name, b.points[used], b.weights[used], triangles.reshape(-1, 3), segments.reshape(-1, 2))


def _rigid(problem: Problem, x: np.ndarray | None, e: Experiment) -> tuple[list[Rigid], Rigid | None]:
    """What is drawn on bodies, and marks of joints, with the values of an experiment at coordinates x (default: the
    start)."""
    model = problem.model
    if not model.body_count and not model.visuals and not solid_shapes(model):
        return [], None
    with problem.holding(problem.start if x is None else x, e):
        rigid = rigid_bodies(model)
        return rigid, joint_marks(model, rigid)


def scenery(problem: Problem, found: np.ndarray | None = None) -> Scenery:
    """What a run's folder keeps to show it later without its model; found: coordinates of what was found."""
    markers = {name: Body(name, *m.table) for name, m in problem.markers.items()}
    targets = {
        e.name: {name: Recording(t.positions, e.schedule.times) for name, t in e.targets.items()}
        for e in problem.experiments
    }
    x, y, z = _up(problem.model).tolist()
    rigid, joints = _rigid(problem, found, problem.experiments[0])
    return Scenery(
        problem.description.name,
        _drawn(problem.model),
        (x, y, z),
        {e.name: _shapes(problem.model, e.settings) for e in problem.experiments},
        markers,
        targets,
        rigid,
        joints,
        body_labels(problem.model),
    )


def _drawn(model: Model) -> list[Body]:
    """A body for each object, and one for springs and points that belong to none."""
    out = []
    free = np.ones(model.point_count, bool)
    links = model.spring_indices.numpy().reshape(-1, 2)
    for name, group in model.groups.items():
        own = (links >= group.start).all(axis=1) & (links < group.start + group.count).all(axis=1)
        if group.surface is not None:
            carrier = group.surface.embedding
            out.append(Body(name, carrier.points + group.start, carrier.weights, group.surface.triangles))
        elif group.kind != "sites":  # what they are on is drawn
            out.append(body(name, group.points, group.triangles - group.start, links[own] - group.start))
        links = links[~own]
        free[group.points] = False
    free[links.reshape(-1)] = True
    if free.any():
        index = np.cumsum(free) - 1
        out.append(body("others", np.flatnonzero(free), segments=index[links]))
    return out


def _up(model: Model) -> np.ndarray:
    """The opposite of gravity, of unit length; y without one."""
    up = -model.gravity.numpy()[0].astype(np.float64)
    size = np.linalg.norm(up)
    return up / size if size > 0 else np.array([0.0, 1.0, 0.0])


def _shapes(model: Model, settings: Mapping[str, np.ndarray]) -> list[Shape]:
    def value(path: str) -> np.ndarray:
        return settings.get(path, model[path].numpy())[0]

    out = []
    for shape in (s for s in model.shapes if s.bodies[0] < 0 and s.kind in ("sphere", "plane")):
        if shape.kind == "sphere":
            center, radius = value(f"{shape.label}.center"), value(f"{shape.label}.radius")
            # A little smaller: chords between points that touch the sphere would run inside of it and flicker.
            out.append(Shape("sphere", center.tolist(), radius=0.985 * float(radius), name=shape.label))
        else:
            point, normal = value(f"{shape.label}.point"), value(f"{shape.label}.normal")
            out.append(Shape("plane", point.tolist(), normal=normal.tolist(), name=shape.label))
    return out
