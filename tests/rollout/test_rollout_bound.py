"""A recorded rollout is bound to what it was called with: arrays and settings that are replaced afterwards do not
matter to its gradient."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from tools.physics.rollouts import STEPS, STRATEGIES, SYSTEMS, Case, interrupted, reference, same

import sim
from sim.core.lang.errors import GradientError
from sim.core.runtime.arrays.array import array
from sim.rollout.rollout import RolloutError


def garbage(a: array) -> array:
    """Another array like this one."""
    return sim.full_like(a, 0.7)


def replace_start(case, made):
    for name in ("particle_q", "particle_qd", "particle_f"):
        setattr(case.state, name, garbage(getattr(case.state, name)))
    case.state.internal_variables = {name: garbage(a) for name, a in case.state.internal_variables.items()}
    case.state.clock = garbage(case.state.clock)


def start_goes_on(case, made):
    """As in a loop: the next rollout begins where this one ended."""
    case.state.particle_q, case.state.particle_qd = made.final.particle_q, made.final.particle_qd


def write_start(case, made):
    for a in (*case.state.moving, case.state.particle_f):
        a.fill_(0.3)
    case.state.time = 5.0


def replace_result(case, made):
    made.particle_q, made.final.particle_q = garbage(made.particle_q), garbage(made.final.particle_q)
    made.final.particle_qd = garbage(made.final.particle_qd)
    made.final.internal_variables = {name: garbage(a) for name, a in made.final.internal_variables.items()}


def replace_control(case, made):
    if case.control is not None:
        case.control.motion_vector = garbage(case.control.motion_vector)


def write_control(case, made):
    if case.control is not None:
        case.control.motion_vector.fill_(1.0)


def other_settings(case, made):
    if isinstance(case.solver, sim.SolverXPBD):
        case.solver.iterations, case.solver.start = 5, "elastic"
        case.solver.order = "jacobi" if case.solver.order == "colored" else "colored"


def replace_model_arrays(case, made):
    model = case.model
    model.particle_inv_mass, model.particle_drag = garbage(model.particle_inv_mass), garbage(model.particle_drag)
    model.motion_vector = garbage(model.motion_vector)
    model.materials["gravity"] = garbage(model.materials["gravity"])
    for s in model.constraint_sets.values():
        s.compliance, s.points = garbage(s.compliance), sim.zeros_like(s.points)
        s.parameters = {name: garbage(a) for name, a in s.parameters.items()}
        s.damping = None if s.damping is None else garbage(s.damping)


def write_materials(case, made):
    for a in case.model.materials.values():
        a.assign(a.numpy() * 1.25 + 0.01)
    case.model.refresh()


def replace_gradients(case, made):
    for a in (
        *case.sources.values(),
        *made.arrays[:-1],
        *case.model.arrays.values(),
        *(s.compliance for s in case.model.constraint_sets.values()),
    ):
        if a.requires_grad:
            a.grad = sim.zeros_like(a, requires_grad=False)


def another_rollout(case, made):
    other = Case(case.solver)
    other.state.particle_qd.fill_(0.5)
    other.rollout(steps=STEPS + 2)
    other.result(sim.Checkpointed(every=2), steps=STEPS)


def many_kinds(case, made):
    """So many that the solver forgets the first."""
    for k in range(12):
        sim.rollout(case.solver, case.model.state(), 3, case.dt * (1 + 0.01 * k))


def steps_by_hand(case, made):
    a, b = case.model.state(), case.model.state()
    with sim.Tape() as tape:
        case.solver.step(a, b, None, None, case.dt)
    tape.backward(grads={b.particle_q: sim.ones_like(b.particle_q)})


def replayed_steps(case, made):
    """Steps in a graph of the user's."""
    a, b = case.model.state(), case.model.state()
    with sim.capture() as graph:
        case.solver.step(a, b, None, None, case.dt)
    graph.replay()


CHANGES = (
    replace_start,
    start_goes_on,
    write_start,
    replace_result,
    replace_control,
    write_control,
    other_settings,
    replace_model_arrays,
    write_materials,
    replace_gradients,
    another_rollout,
    many_kinds,
    steps_by_hand,
    replayed_steps,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_what_is_changed_after_recording_does_not_matter(change):
    system = ("cloth", "iterated", "jacobi", "elastic", "semi-implicit")[CHANGES.index(change) % 5]
    for strategy in (sim.StoreAll(), sim.Checkpointed(every=3)):
        case = Case(SYSTEMS[system]())
        recorded = case.record(strategy)
        change(case, recorded.made)
        same(recorded.result(), reference(system))


@pytest.mark.parametrize("system", SYSTEMS)
def test_all_changes_at_once_on_all_systems(system):
    for strategy in (sim.StoreAll(), sim.Checkpointed(budget=3000)):
        case = Case(SYSTEMS[system]())
        recorded = case.record(strategy)
        for change in (
            another_rollout,
            many_kinds,
            steps_by_hand,
            write_materials,
            write_start,
            write_control,
            other_settings,
            replace_start,
            replace_result,
            replace_control,
            replace_model_arrays,
            replace_gradients,
        ):
            change(case, recorded.made)
        same(recorded.result(), reference(system))
        same(recorded.result(), reference(system))


def test_forces_of_each_of_many_rollouts_in_a_loop():
    """A controller's loop: forces and motions of each piece by attribute."""
    found = []
    for bound in (True, False):
        case = Case(SYSTEMS["cloth"]())
        rng, state, control = np.random.default_rng(3), case.state, case.control
        forces = [sim.array(0.1 * rng.normal(size=(9, 3)), dtype=sim.vec3d, requires_grad=True) for _ in range(4)]
        motions = [sim.array(0.1 * rng.normal(size=(2, 3)), dtype=sim.vec3d, requires_grad=True) for _ in range(4)]
        with sim.Tape() as tape:
            for f, m in zip(forces, motions, strict=True):
                if bound:
                    state = copy.copy(state)
                    control = sim.model.Control(case.model, m)
                state.particle_f, control.motion_vector = f, m
                final = sim.rollout(case.solver, state, 4, case.dt, control, strategy=sim.Checkpointed(every=3)).final
                state.particle_q, state.particle_qd, state.clock = final.particle_q, final.particle_qd, final.clock
        tape.backward(grads={state.particle_q: sim.ones_like(state.particle_q)})
        found.append({f"{k} {a.size}": a.grad.numpy().copy() for k, a in enumerate([*forces, *motions])})
        assert all(np.abs(values).max() > 0 for values in found[-1].values())
    same(found[0], found[1])


def test_steps_by_hand_are_bound_too():
    found = []
    for change in (
        None,
        replace_start,
        replace_control,
        other_settings,
        replace_model_arrays,
        write_materials,
        write_start,
        another_rollout,
    ):
        case = Case(SYSTEMS["iterated"]())
        states = [case.state, case.model.state(), case.model.state()]
        with sim.Tape() as tape:
            for before, after in zip(states, states[1:], strict=False):
                case.solver.step(before, after, case.control, None, case.dt)
        sources, end = case.sources, states[-1].particle_q
        if change is not None:
            change(case, None)
        for a in sources.values():
            if a.grad is not None:
                a.grad.zero_()
        tape.backward(grads={end: sim.ones_like(end)})
        found.append({name: a.grad.numpy().copy() for name, a in sources.items() if a.grad is not None})
        same(found[-1], found[0])


# ------------------------------------------------------------------------------------------ settings, and rollouts that
# follow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_solver_whose_settings_change_is_a_solver_made_so(strategy):
    case = Case(SYSTEMS["cloth"]())
    for settings in (
        (1, "colored", "zero"),
        (3, "colored", "zero"),
        (2, "jacobi", "elastic"),
        (1, "colored", "zero"),
        (1, "jacobi", "zero"),
    ):
        case.solver.iterations, case.solver.order, case.solver.start = settings
        wanted = Case(sim.SolverXPBD(SYSTEMS["cloth"]().model, *settings)).result(STRATEGIES[strategy])
        same(case.result(STRATEGIES[strategy]), wanted)
    case.solver.order = "other"
    with pytest.raises(sim.solvers.SolverError, match="order='other'"):
        case.rollout()
    case.solver.order = "colored"
    case.rollout()


@dataclass(eq=False)
class Windy(sim.SolverXPBD):
    """A solver of the user's, with a number and arrays of its own."""

    strength: float = 1.0
    wind: sim.array | None = None

    def step(self, state_in, state_out, control, contacts, dt):
        """Wind adds to the velocity before the step."""
        blown = self.model.state() if not hasattr(self, "blown") else self.blown
        self.blown = blown
        given = [state_in.particle_q, state_in.particle_qd, self.wind, self.strength]
        sim.launch(blow, self.model.particle_count, given, [blown.particle_q, blown.particle_qd])
        blown.clock.assign(state_in.clock)
        super().step(blown, state_out, control, contacts, dt)


@sim.kernel
def blow(
    x: sim.array[sim.vec3d],
    v: sim.array[sim.vec3d],
    wind: sim.array[sim.vec3d],
    strength: sim.float64,
    x_out: sim.array[sim.vec3d],
    v_out: sim.array[sim.vec3d],
):
    i = sim.tid()
    x_out[i] = x[i]
    v_out[i] = v[i] + strength * wind[0]


def windy(strength: float = 0.1) -> Windy:
    solver = Windy(SYSTEMS["cloth"]().model)
    solver.strength, solver.wind = strength, sim.array([[0.1, 0.2, 0.3]], dtype=sim.vec3d, requires_grad=True)
    return solver


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_numbers_and_arrays_of_a_solver_of_ones_own(strategy):
    def found(solver, change):
        case = Case(solver)
        wind = solver.wind
        recorded = case.record(STRATEGIES[strategy])
        change(solver)
        values = recorded.result()
        wind.grad.zero_()
        recorded.tape.backward(grads=recorded.weights())
        return values | {"d wind": wind.grad.numpy().copy()}

    solver = windy()
    wanted = found(windy(), lambda s: None)
    assert np.abs(wanted["d wind"]).max() > 0.01
    same(found(solver, lambda s: setattr(s, "strength", 0.3)), wanted)
    weaker = found(windy(0.3), lambda s: None)
    assert np.abs(weaker["q"] - wanted["q"]).max() > 1e-4
    same(found(solver, lambda s: s.wind.fill_(9.0)), weaker)  # its strength is .3 now


# ------------------------------------------------------------------------------------------ what is an error
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "change",
    [
        lambda case, made: setattr(made.final.particle_q, "requires_grad", False),
        lambda case, made: setattr(made.particle_q, "requires_grad", False),
        lambda case, made: setattr(case.state.particle_f, "requires_grad", False),
        lambda case, made: setattr(case.model.gravity, "requires_grad", False),
        lambda case, made: setattr(case.control.motion_vector, "requires_grad", False),
    ],
)
def test_requires_grad_is_not_switched_after_recording(change, strategy):
    case = Case(SYSTEMS["cloth"]())
    recorded = case.record(STRATEGIES[strategy])
    change(case, recorded.made)
    with pytest.raises(
        GradientError, match="requires_grad of an array of shape .* of the rollout of 7 steps was changed"
    ):
        recorded.tape.backward(grads={recorded.made.final.particle_qd: sim.ones_like(recorded.made.final.particle_qd)})


@sim.kernel
def total(x: sim.array[sim.vec3d], out: sim.array[sim.float64]):
    sim.atomic_add(out, 0, sim.dot(x[sim.tid()], x[sim.tid()]))


def test_a_model_without_gradients():
    """What asks it for one gets an error; without anybody who asks it runs on a tape too."""
    builder = sim.ModelBuilder()
    builder.add_particles([[0, 0, 0], [1, 0, 0]], mass=1.0)
    model = builder.finalize(dtype=sim.float64)
    solver = sim.SolverXPBD(model)
    state, loss = model.state(), sim.zeros(1, sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        final = sim.rollout(solver, state, 3, 0.01).final
        sim.launch(total, 2, [final.particle_q], [loss])
    tape.backward(loss)
    assert final.particle_q.grad is None
    with pytest.raises(GradientError, match="does not require a gradient"):
        tape.backward(grads={final.particle_q: sim.ones_like(final.particle_q)})
    for strategy in STRATEGIES.values():
        state.particle_f.requires_grad = True
        with pytest.raises(RolloutError, match=r"finalize\(requires_grad=True\)"), sim.Tape():
            sim.rollout(solver, state, 3, 0.01, strategy=strategy)


def test_multipliers_behind_a_rollout():
    """They show the last step; a loss on those that have no gradient is an error, on the others it is that of steps by
    hand."""
    forces, grads = [], []
    for iterations in (1, 2):
        for by_hand in (False, True):
            case = Case(sim.SolverXPBD(SYSTEMS["cloth"]().model, iterations))
            loss = sim.zeros(1, sim.float64, requires_grad=True)

            def run(case=case, by_hand=by_hand, loss=loss):
                if by_hand:
                    a, b = case.state.clone(), case.state.clone()
                    for _ in range(STEPS):
                        case.solver.step(a, b, case.control, None, case.dt)
                        a, b = b, a
                else:
                    case.rollout(sim.Checkpointed(every=3))
                multipliers = case.solver.multipliers("distance")
                sim.launch(squares, multipliers.size, [multipliers], [loss])

            with sim.Tape() as tape:
                if iterations == 1:
                    with pytest.raises(GradientError, match="the gradient would be lost"):
                        run()
                    continue
                run()
            tape.backward(loss)
            forces.append(case.solver.multipliers("distance").numpy().copy())
            grads.append({name: a.grad.numpy().copy() for name, a in case.sources.items() if a.grad is not None})
    np.testing.assert_array_equal(*forces)
    for name in grads[0]:
        np.testing.assert_allclose(grads[0][name], grads[1][name], rtol=1e-10, atol=1e-14, err_msg=name)
    assert np.abs(grads[0]["d sheet.distance.compliance"]).max() > 0


@sim.kernel
def squares(x: sim.array[sim.float64], out: sim.array[sim.float64]):
    sim.atomic_add(out, 0, x[sim.tid()] * x[sim.tid()])


def test_the_tools_find_what_they_are_to_find():
    """Every system has a gradient by everything, and exceptions come where they are asked for."""
    for system in SYSTEMS:
        assert all(
            np.abs(values).max() > 0
            for name, values in reference(system).items()
            if name in ("d particle_q", "d particle_f", "d gravity")
        ), system
    assert interrupted(lambda: Case(SYSTEMS["cloth"]()).rollout(), 50) == 51


class Slowed(sim.SolverXPBD):
    """A solver whose setting lies in a container."""

    def __post_init__(self):
        super().__post_init__()
        self.scale = {"steps": [1.0]}

    def step(self, state_in, state_out, control, contacts, dt):
        super().step(state_in, state_out, control, contacts, dt * self.scale["steps"][0])


def test_a_setting_in_a_container_is_bound():
    def run(scale, later):
        builder = sim.ModelBuilder()
        builder.add_cloth_grid(
            pos=(0, 0, 0),
            dim_x=2,
            dim_y=2,
            cell_x=0.5,
            cell_y=0.5,
            density=0.2,
            fix_top=True,
            label="sheet",
            material={"distance": {"compliance": 0.05}},
        )
        model = builder.finalize(dtype=sim.float64, requires_grad=True)
        solver = Slowed(model)
        sim.rollout(solver, model.state(), 6, 0.01)
        solver.scale["steps"][0] = scale
        with sim.Tape() as tape:
            end = sim.rollout(solver, model.state(), 6, 0.01, strategy=sim.Checkpointed(every=4)).final
        solver.scale["steps"][0] = later
        tape.backward(grads={end.particle_q: sim.ones_like(end.particle_q)})
        return np.append(end.particle_q.numpy(), model["sheet.distance.compliance"].grad.numpy())

    np.testing.assert_array_equal(run(0.5, 2.0), run(0.5, 0.5))
    assert not np.array_equal(run(1.0, 1.0), run(0.5, 0.5))
