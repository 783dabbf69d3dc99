"""SolverNewton and others on what stands in the world: boxes, capsules and cylinders without friction, places."""

from functools import partial

import numpy as np
import pytest
from tools.physics.newton_models import gradient_errors

import sim
from sim.model.collision.detection import ContactError
from sim.solvers import RestSolver, Solver

TURNED = np.array([0.05, 0.1, 0.08, 0.95]) / np.linalg.norm([0.05, 0.1, 0.08, 0.95])
SIZES = {"box": (0.08, 0.05, 0.09), "capsule": (0.2, 0.1), "cylinder": (0.06, 0.1)}
HEIGHTS = {"box": 0.1, "capsule": 0.3, "cylinder": 0.11}


def sheet(kind: str) -> sim.ModelBuilder:
    """Cloth that falls onto a shape."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    material = {"distance": {"compliance": 1e-4, "damping": 0.01}, "bend": {"compliance": 100.0}}
    size = {"dim_x": 3, "dim_y": 3, "cell_x": 0.1, "cell_y": 0.1}
    builder.add_cloth_grid(**size, density=0.3, vel=(0.2, 0.4, 0), material=material)
    if kind == "ball":
        builder.add_shape_sphere((0.12, 0.12, -0.052), 0.05, label="shape")
    else:
        place = sim.transformd((0.12, 0.1, -HEIGHTS[kind] - 0.006), TURNED)
        getattr(builder, f"add_shape_{kind}")(-1, place, *SIZES[kind], label="shape")
    return builder


def spring(compliance: float = 1e-3, damping: float = 0.05) -> sim.ModelBuilder:
    """A chain that hangs from a place in the world by springs."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_chain((0, 0, 0), (0.6, 0.1, 0), 4, 0.5, material={"distance": {"compliance": 1e-4}})
    builder.add_attachment([3])
    world = builder.point_of(-1, (0.05, 0.3, 0.02))
    rows = [[0, world], [1, world]]
    builder.add_constraints("distance", rows, compliance, damping, "strings", rest=[0.28, 0.31])
    return builder


MODELS = {**{f"sheet on a {kind}": lambda kind=kind: sheet(kind) for kind in (*SIZES, "ball")}, "springs": spring}
"""The ball is narrower than the triangles, and meets these too."""


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name: str) -> None:
    errors = gradient_errors(MODELS[name](), *((30, 2e-3) if "ball" in name else (8, 0.01)))
    paths = {"springs": {"strings.rest", "strings.compliance", "strings.damping"}, "sheet on a ball": {"shape.center"}}
    paths = paths.get(name, {"shape.at"})
    assert paths < set(errors)
    assert max(errors.values()) < (1e-6 if "ball" in name else 1e-7), errors


@pytest.mark.parametrize("name", MODELS)
def test_all_solvers_converge_to_each_other(name: str) -> None:
    """The rest halves with the step; what has no compliance forces cannot hold."""
    model = MODELS[name]().finalize(dtype=sim.float64)
    solvers = [sim.SolverXPBD(model, 200), sim.SolverNewton(model)]
    if name == "springs":
        solvers.append(sim.SolverSemiImplicit(model))
    gaps = []
    for steps in (40, 80, 160):
        ends = [sim.rollout(s, model.state(), steps, 0.08 / steps).final.particle_q.numpy() for s in solvers]
        gaps.append(max(np.abs(end - ends[0]).max() for end in ends[1:]))
    pressed = [s.multipliers(n).numpy().max() for s in solvers[:2] for n in model.constraint_sets if "contact" in n]
    assert name == "springs" or max(pressed) > 0.0
    assert gaps[2] < 2e-4 and gaps[2] < 0.7 * gaps[1] < 0.5 * gaps[0], gaps


def lying(kind: str) -> sim.ModelBuilder:
    """Cloth that is held at its corners and rests on a shape."""
    builder = sim.ModelBuilder(gravity=(0.3, 0, -9.81))
    material = {"membrane_stvk": {"young": 2e4, "poisson": 0.3, "thickness": 1e-3}, "bend": {"compliance": 500.0}}
    builder.add_cloth_grid(dim_x=4, dim_y=3, cell_x=0.1, cell_y=0.1, density=0.3, material=material)
    builder.add_attachment([0, 4, 15, 19], offset=(0.002, 0, 0.001), turn=(0.05, 0, 0.1))
    place = sim.transformd((0.2, 0.15, -HEIGHTS[kind] - 0.02), TURNED)
    getattr(builder, f"add_shape_{kind}")(-1, place, *SIZES[kind], label="shape")
    return builder


@pytest.mark.parametrize("kind", SIZES)
def test_rest_on_a_shape_has_the_gradient_of_differences(kind: str) -> None:
    errors = gradient_errors(lying(kind), 1, 1.0, lambda solver: RestSolver(solver.model).state())
    assert "shape.at" in errors
    assert max(errors.values()) < 1e-6, errors


def test_a_spring_to_the_world_oscillates_as_its_matrix_power() -> None:
    """Symplectic Euler: v' = v - h k y, y' = y + h v'."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particle((1.5, 0, 0), mass=1.0)
    builder.add_constraints("distance", [[0, builder.point_of(-1)]], 1e-3, label="spring", rest=1.0)
    model = builder.finalize(dtype=sim.float64)
    h, n, k = 1e-2, 50, 1e3
    step = np.array([[1 - h * h * k, h], [-h * k, 1.0]])
    want = np.linalg.matrix_power(step, n) @ [0.5, 0.0]
    final = sim.rollout(sim.SolverSemiImplicit(model), model.state(), n, h).final
    assert final.particle_q.numpy()[0, 0] - 1 == pytest.approx(want[0], abs=1e-12)
    assert final.particle_qd.numpy()[0, 0] == pytest.approx(want[1], abs=1e-10)


@pytest.mark.parametrize("solver", [sim.SolverSemiImplicit, sim.SolverNewton])
def test_a_point_that_comes_through_a_ball_in_a_step_is_an_error(solver: type[Solver]) -> None:
    """20 m/s through 1 cm, a step of 1/480 s; at 1 m/s it is turned around."""
    for velocity in (-20.0, -1.0):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        builder.add_shape_sphere((0.099, 0, 0), 0.005, compliance=1e-5, label="pearl")
        builder.add_particle((0.1, 0.02, 0.0011), (0, velocity, 0), 0.1)
        model = builder.finalize(dtype=sim.float64)
        step = partial(sim.rollout, solver(model), model.state(), 12, 1 / 480)
        if velocity == -1.0:
            assert step().final.particle_q.numpy()[0, 1] > 0.0
            continue
        with pytest.raises(ContactError, match="point 0 of .* has come through 'pearl' in a step"):
            step()
        state, after = model.state(), model.state()
        with pytest.raises(ContactError, match="come through 'pearl'"):
            for _ in range(6):
                solver(model).step(state, after, None, None, 1 / 480)
                state, after = after, state


def test_forces_alone_cannot_hold_a_box_in_the_world() -> None:
    """Shapes but planes and balls have no compliance: the message says which shape."""
    model = sheet("box").finalize(dtype=sim.float64)
    with pytest.raises(sim.SimError, match="'shape' .* has compliance 0, which no force can hold"):
        sim.rollout(sim.SolverSemiImplicit(model), model.state(), 1, 1e-3)


@pytest.mark.parametrize("place", [(0.1, 0.102), (0.107, 0.102)])
def test_triangles_that_ask_for_nearly_the_same_are_solved(place: tuple[float, float]) -> None:
    """A narrow ball under the middle of a sheet: a corner, and the six triangles that it belongs to."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    material = {"distance": {"compliance": 1e-4, "damping": 0.01}, "bend": {"compliance": 100.0}}
    builder.add_cloth_grid(dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.3, material=material)
    builder.add_shape_sphere((*place, -0.0505), 0.05, label="ball")
    model = builder.finalize(dtype=sim.float64)
    assert sum(s.count for name, s in model.constraint_sets.items() if "triangle" in name) == 8
    newton, swept = sim.SolverNewton(model), sim.SolverXPBD(model, 300)
    ends = [sim.rollout(s, model.state(), 80, 2.5e-3).final.particle_q.numpy() for s in (newton, swept)]
    assert newton.convergence.unconverged == 0
    assert np.abs(ends[0] - ends[1]).max() < 2e-3 < 1e-2 < np.abs(ends[0] - model.particle_q.numpy()).max()
