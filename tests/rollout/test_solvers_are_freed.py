"""What rollouts keep of a solver goes with it: captured steps, records, and all that they hold."""

import gc
import weakref

import numpy as np
import pytest

import sim
from sim.core.runtime.memory.buffer import Buffer

AHEAD = (0, 0, 0, 1.0)


def hung_ball(jointed: bool, rough: bool) -> sim.Model:
    """A ball over a floor, on a joint or not, with friction or not."""
    kind = sim.ModelBuilder.ShapeConfig
    given = {"mu": 0.5, "restitution": 0.5} if rough else {}
    builder = sim.ModelBuilder()
    ball = builder.add_body(sim.transformd((0, 0.2, 0), AHEAD), label="ball")
    builder.add_shape_sphere(ball, None, 0.1, cfg=kind(mass=1.0, **given))
    if jointed:
        ends = [sim.transformd(at, AHEAD) for at in ((0.5, 0.2, 0), (0.5, 0, 0))]
        builder.add_joint_ball(-1, ball, *ends, label="joint")
    builder.add_ground_plane(cfg=kind(**given))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def gradient(model: sim.Model, steps: int, **options) -> weakref.ref:
    """Of steps of a solver of its own, which is gone afterwards."""
    solver = sim.SolverXPBD(model, **options)
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), steps, 1 / 480).final.body_q
    tape.backward(grads={end: sim.array(np.ones_like(end.numpy()), dtype=end.dtype)})
    return weakref.ref(solver)


@pytest.mark.parametrize(
    ("jointed", "rough", "steps", "options"),
    [
        (False, False, 3, {}),
        (False, True, 20, {}),
        (True, True, 3, {}),
        (True, False, 3, {"direct": ("joint",)}),
        (False, True, 3, {"iterations": 2}),
    ],
)
def test_a_gradient_leaves_nothing_behind(jointed, rough, steps, options):
    """Also where some steps stand for all: as many buffers after the third as after the second, and no solver.  Each
    kept all of its records for good, or until Python looked for cycles, which it does by objects, not by bytes."""
    model, counts = hung_ball(jointed, rough), []
    gradient(model, steps, **options)  # code that a process compiles once
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            assert gradient(model, steps, **options)() is None
            counts.append(sum(isinstance(thing, Buffer) for thing in gc.get_objects()))
        assert counts[1] <= counts[0]
    finally:
        gc.enable()
