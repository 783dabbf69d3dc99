"""From a scene to a `Problem`: model, solver, experiments, parameters, loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.core.lang.types import float64
from sim.core.runtime.devices.device import DeviceLike
from sim.identify.assess.alignment import FileSpace, alignment_notes
from sim.identify.data.experiments import Experiment
from sim.identify.evaluate.values import MaterialValues
from sim.identify.parameters.parameters import Parameter
from sim.identify.problem import Description, NotRefined, Problem
from sim.identify.search.method import Method
from sim.model import Model, ModelBuilder
from sim.model.build.self_contact import thick_surfaces
from sim.model.build.shapes.narrow import narrow_shapes
from sim.scene.build.context import WHOLE, BuildContext
from sim.scene.build.experiments import make_experiments, make_markers, make_measures
from sim.scene.build.finer import has_mesh, marker_places, refuse_to_refine
from sim.scene.build.method import make_expectations, make_method, make_strategy
from sim.scene.build.parameters import make_parameters
from sim.scene.build.parts import add_parts
from sim.scene.build.surroundings import ShapeToTouch, inside_shapes, shapes_to_touch
from sim.scene.build.terms import make_terms
from sim.scene.validate.document import Document
from sim.schema.errors import SceneError
from sim.solvers import (
    SOLVERS,
    NoStateAtRest,
    RestSolver,
    Solver,
    SolverError,
    growing,
    growth_warning,
    inside_at_start,
    rounding_warning,
    start_warning,
    step_warnings,
)

PRECISION = float64
"""Of a scene's model where nobody says, in Python and on the command line alike: differences and far digits of
gradients survive in it."""

PLACED = ("objects", "joints", "attachments", "shapes")
"""What an experiment may place of its own."""


def build_problem(scene: Document, device: DeviceLike = None, dtype: Any = PRECISION) -> Problem:
    """The problem that a scene states, on a device, in float64 or float32.

    Reads meshes and recordings.  Raises `SceneError` with everything that is wrong with them, and with what the scene
    format knows and this version has not built yet.
    """
    context = BuildContext(scene, ModelBuilder(**scene.data["world"]))
    problem = _problem(context, device, dtype)
    _check_starts(context, problem)
    problem.finer_mesh = FinerMesh(scene, device, dtype, marker_places(context, problem.markers))
    # Whether recordings lie where the simulation begins is seen from both.
    if notes := alignment_notes(problem, _spaces(context)):
        problem.description = replace(problem.description, notes=(*problem.description.notes, *notes))
    return problem


@dataclass(frozen=True, eq=False)
class FinerMesh:
    """Makes the problem of a scene with twice as many elements along every edge, and markers at their places."""

    scene: Document
    device: DeviceLike
    dtype: Any
    places: Mapping[str, np.ndarray]

    def __call__(self) -> Problem:
        """Raises NotRefined where a finer mesh is not the same scene."""
        refuse_to_refine(self.scene)
        builder = ModelBuilder(**self.scene.data["world"])
        moved = {
            name: x for name, x in self.places.items() if has_mesh(self.scene, self.scene.data["markers"][name]["on"])
        }
        try:
            return _problem(BuildContext(self.scene, builder, finer=2, places=moved), self.device, self.dtype)
        except SceneError as error:
            raise NotRefined(f"the finer mesh cannot be built: {error.problems[0].what}") from error


def _problem(context: BuildContext, device: DeviceLike, dtype: Any) -> Problem:
    scene = context.scene
    # Everything is looked at before what is wrong is raised, as far as it can be without what is missing.
    held = add_parts(context)
    markers = make_markers(context, held)
    measures = make_measures(context, markers)
    model = _model(context, device, dtype)
    experiments = make_experiments(context, model, markers)
    parameters = make_parameters(context, model) if model is not None else []
    terms = make_terms(context, model, markers, experiments, parameters)
    method = make_method(context, experiments, terms).chosen(terms, sum(p.reach for p in parameters))
    context.finish()
    assert model is not None
    solver = make_solver(context, model, "solver")
    longest = max((e.schedule.dt for e in experiments), default=0.0)
    if longest and (error := growing(solver, longest)) is not None:
        context.problem("solver.xpbd", str(error), error.hint)
    reference = make_solver(context, model, "reference") if "reference" in scene.data else None
    pairs = shapes_to_touch(context, held)
    _check_apart(context, solver, experiments, parameters, pairs)
    if longest and (text := growth_warning(solver, longest)):
        context.warnings.append(f"solver: {text}")
    if text := start_warning(solver):
        context.warnings.append(text)
    context.warnings += [f"solver: {text}" for text in step_warnings(solver, [e.schedule.dt for e in experiments])]
    rounding = (rounding_warning(model, e.schedule.steps * e.schedule.dt, e.schedule.dt) for e in experiments)
    context.warnings += [f"solver: {text}" for text in dict.fromkeys(rounding) if text]
    context.warnings += [
        f"{shape}, {1e3 * width:.3g} mm wide, fits between points of {name}, which alone it meets, up to"
        f" {1e3 * side:.3g} mm from each other: it may pass through; take finer triangles"
        for shape, name, width, side in narrow_shapes(model)
    ]
    context.warnings += [
        f"contact: {name} keeps {1e3 * kept:.3g} mm from itself, and none of its edges is longer than"
        f" {1e3 * longest:.3g} mm: it cannot fold as its triangles could; check the unit of its thickness, or take"
        " coarser triangles"
        for name, kept, longest in thick_surfaces(model)
    ]
    return Problem(
        model,
        solver,
        experiments,
        markers,
        parameters,
        terms,
        make_strategy(scene.data, experiments),
        method,
        make_expectations(context),
        _description(context, method),
        measures,
        reference,
        make_rest(context, model) if any(e.relaxed for e in experiments) else None,
        inside=lambda: _first_of_each(
            ((shape, on), what) for shape, on, what, _ in (*inside_at_start(solver), *inside_shapes(pairs, model))
        ),
    )


def _first_of_each(told: Iterable[tuple[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """Of a shape and an object the first sentence: that of its points, before those of triangles and edges."""
    out: dict[tuple[str, str], str] = {}
    for key, what in told:
        out.setdefault(key, what)
    return out


def _description(context: BuildContext, method: Method) -> Description:
    scene, output = context.scene, context.data["output"]
    return Description(
        scene.name,
        scene.data["about"],
        _with_method(scene, method).resolved_yaml(),
        output["record"]["every"],
        output["report"],
        tuple(context.warnings),
        scene.path,
        scene.files(),
        tuple(context.data["optimize"]["numerics"]),
        {path: origin.told for path, origin in context.origins.items()},
    )


def _spaces(context: BuildContext) -> dict[str, FileSpace]:
    """Experiment -> unit and axes of its recording."""
    origins = {name: context.origins.get(f"experiments.{name}.target") for name in context.data["experiments"]}
    return {name: FileSpace(origin.unit, origin.axes) for name, origin in origins.items() if origin is not None}


def _with_method(scene: Document, method: Method) -> Document:
    """The scene with the method that it does not name, so that a run's folder tells it."""
    optimize = scene.data["optimize"]
    if method.name in optimize or not scene.data["parameters"]:
        return scene
    return replace(scene, data={**scene.data, "optimize": {method.name: {"iterations": method.limit}, **optimize}})


def make_solver(context: BuildContext, model: Model, key: str) -> Solver:
    """The solver that `solver` names, or `reference`."""
    ((name, settings),) = context.data[key].items()
    try:
        solver = SOLVERS[name](model, **settings)
        solver.check_model()
    except SolverError as error:
        context.problem(f"{key}.{name}", str(error), error.hint)
        context.finish()
    return solver


def make_rest(context: BuildContext, model: Model) -> RestSolver:
    """What finds the state at rest."""
    try:
        made = RestSolver(model)
        made.check_model()
    except SolverError as error:
        context.problem(_start_of(context), str(error), error.hint)
        context.finish()
    return made


def _check_apart(
    context: BuildContext,
    solver: Solver,
    experiments: list[Experiment],
    sought: list[Parameter],
    pairs: Sequence[ShapeToTouch],
) -> None:
    """What collides begins apart in every experiment, at the start of the search; where none begins does not count."""
    model, start = solver.model, {p.name: p.start for p in sought}
    values = MaterialValues(model, sought, experiments)
    seen: set[tuple[bytes, ...]] = set()
    told: set[str] = set()
    with values.kept():
        for e in experiments:
            values.write(e, start)
            begun = tuple(model[path].numpy().tobytes() for path in values.paths)
            if begun in seen:
                continue
            seen.add(begun)
            own = context.data["experiments"][e.name]["set"]
            placed = f"experiments.{e.name}.set" if any(path.partition(".")[0] in PLACED for path in own) else ""
            with context.at(placed or WHOLE):
                model.check_start()
            inside = [
                *((f"objects.{on}", on, what, deep) for _, on, what, deep in inside_at_start(solver)),
                *((f"shapes.{shape}", on, what, deep) for shape, on, what, deep in inside_shapes(pairs, model)),
            ]
            for place, on, what, deep in inside:
                if deep:
                    context.problem(placed or place, what, f"move one of them, as by `objects.{on}.position`")
                elif what not in told:
                    told.add(what)
                    context.warnings.append(f"{what}: the contact pushes them out at the start")
    context.finish()


def _start_of(context: BuildContext) -> str:
    """The path of the first `start: equilibrium`."""
    own = (f"experiments.{name}" for name, e in context.data["experiments"].items() if e.get("start") == "equilibrium")
    return "start" if context.data["start"] == "equilibrium" else f"{next(own)}.start"


def _check_starts(context: BuildContext, problem: Problem) -> None:
    """Every experiment that begins at rest can."""
    for e in problem.experiments:
        if e.relaxed:
            try:
                problem.start_positions(e)
            except NoStateAtRest as error:
                own = f"experiments.{e.name}.start"
                context.problem(
                    own if "start" in context.data["experiments"][e.name] else "start", error.what, error.hint
                )
    context.finish()


def _model(context: BuildContext, device: DeviceLike, dtype: Any) -> Model | None:
    """The model, unless objects are missing because of problems that are noted already."""
    if context.problems or not context.groups:
        return None
    with context.at(WHOLE):
        return context.builder.assembled(device, requires_grad=bool(context.data["parameters"]), dtype=dtype)
    return None
