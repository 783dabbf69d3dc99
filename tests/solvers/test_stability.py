"""`start="elastic"` with damping: energy does not grow, or the steps are refused."""

import numpy as np
import pytest
from problem_scenes import write_scene
from solid_tools import MEAN, block

import sim
from sim.model.energy import constraint_energy
from sim.scene import SceneError
from sim.solvers import SolverError
from sim.solvers.stability import damping_number


def solid(law: str, damping: float, element: str = "tetrahedra", poisson: float = 0.45) -> sim.Model:
    """A clamped block of 2 x 2 x 7 cells of 15 mm, of quadratic tetrahedra 1 x 1 x 3."""
    more = {} if element == "tetrahedra" else {"element": element}
    cells = (1, 1, 3) if element == "quadratic" else (2, 2, 7)
    return block(law, cells, tuple(0.015 * n for n in cells), damping=damping, poisson=poisson, clamp=True, **more)[0]


def energy_kept(model: sim.Model, h: float, time: float) -> float:
    """Energy after a time over that of points displaced at random by 0.1 mm."""
    mass, free = model.particle_mass.numpy(), model.particle_inv_mass.numpy() > 0

    def energy(state: sim.State) -> float:
        v = state.particle_qd.numpy()[free]
        stored = sum(constraint_energy(model, state, name) for name in model.constraint_sets)
        return stored + 0.5 * float(mass[free] @ (v**2).sum(axis=1))

    state = model.state()
    rest = energy(state)
    x = state.particle_q.numpy()
    state.particle_q.assign(x + 1e-4 * free[:, None] * np.random.default_rng(0).normal(size=x.shape))
    begin = energy(state)
    final = sim.rollout(sim.SolverXPBD(model, start="elastic"), state, round(time / h), h).final
    return (energy(final) - rest) / (begin - rest)


# The pair grew at 2e-4 and 1e-4: the change of volume began with all of its force, that of shape with a part.
# Quadratic tetrahedra kept their energy, for the same reason.
@pytest.mark.parametrize(
    ("law", "element", "damping", "h"),
    [
        (MEAN, "tetrahedra", 0.02, 2e-4),
        (MEAN, "tetrahedra", 0.05, 2e-4),
        (MEAN, "tetrahedra", 0.05, 1e-4),
        (MEAN, "tetrahedra", 0.005, 4e-4),
        ("stvk", "tetrahedra", 0.005, 4e-4),
        ("neo_hookean", "tetrahedra", 0.005, 4e-4),
        ("neo_hookean", "hexahedra", 0.02, 4e-4),
        ("stvk", "quadratic", 0.0, 4e-4),
    ],
)
def test_energy_does_not_grow(law, element, damping, h):
    assert energy_kept(solid(law, damping, element), h, 0.1) < 0.02


@pytest.mark.parametrize("law", ["stvk", "neo_hookean"])
def test_steps_that_would_gain_energy_are_refused(law):
    model = solid(law, 0.02)
    solver = sim.SolverXPBD(model, start="elastic")
    with pytest.raises(SolverError, match=f"steps of 0.0004 s are .* the damping of `{law}`.*iterations"):
        sim.rollout(solver, model.state(), 1, 4e-4)
    sim.rollout(solver, model.state(), 1, 2e-4)
    solver.iterations = 2
    sim.rollout(solver, model.state(), 1, 4e-4)
    sim.rollout(sim.SolverXPBD(model), model.state(), 1, 4e-4)  # from multipliers of zero: as published


def test_the_damping_number_is_that_of_the_element():
    """r = 2 mu tau h / (rho l^2) up to the shape of the element, and k = (2 mu + 3 lambda) / 2 mu."""
    found = []
    for poisson in (0.0, 0.45):
        model = solid("stvk", 0.02, poisson=poisson)
        solver = sim.SolverXPBD(model, start="elastic")
        (batch,) = solver.batches
        found.append(damping_number(solver, batch, 2e-4) * (1 + poisson))
        assert damping_number(solver, batch, 1e-4) == pytest.approx(0.5 * damping_number(solver, batch, 2e-4), rel=0.05)
    assert found[1] / found[0] == pytest.approx((1 + 3 * 0.45 / 0.1) ** 0.5, rel=0.35)


SCENE = """\
format: 2
name: damped
time: {duration: 0.01, fps: 100, substeps: 25}
solver: {xpbd: {start: elastic}}
objects:
  bar:
    soft:
      lattice: {size: [3 cm, 3 cm, 6 cm], cells: [2, 2, 4]}
      density: 1070
      material: {stvk: {young: 2.6e5, poisson: 0.45, damping: 20 ms}}
"""


def test_a_scene_is_refused_at_its_start(tmp_path):
    with pytest.raises(SceneError, match="solver.xpbd.start"):
        sim.load_scene(write_scene(tmp_path, SCENE)).build()
    sim.load_scene(write_scene(tmp_path, SCENE, **{"substeps: 25": "substeps: 50"})).build()
