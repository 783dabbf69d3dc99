"""What is changed between two rollouts shows in the second, to the bit, however much is remembered of those before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tools.physics.rollouts import SEED, STEPS, SYSTEMS, Case, outputs, same

import sim

NARROW = {"sheet.distance.compliance", "sheet.velocity"}


@sim.kernel
def scaled(factor: sim.array[sim.float64], value: sim.array[sim.float64]):
    value[sim.tid()] = 0.02 * factor[0]


class Used:
    """A solver, and one start for all rollouts: such as can be recognised, without a control."""

    def __init__(self) -> None:
        self.case = Case(SYSTEMS["cloth"]())
        self.solver, self.model, self.state = self.case.solver, self.case.model, self.case.state
        self.dt, self.factor = self.case.dt, sim.array([1.0], dtype=sim.float64, requires_grad=True)

    def forward(self) -> dict[str, np.ndarray]:
        made = sim.rollout(self.solver, self.state, STEPS, self.dt, frame_every=3)
        return {"frames": made.particle_q.numpy().copy()}

    def record(self, strategy, scale=False) -> tuple[sim.Tape, sim.Trajectory]:
        with sim.Tape() as tape:
            if scale:
                value = self.model["sheet.distance.compliance"]
                sim.launch(scaled, value.size, [self.factor], [value])
            made = sim.rollout(self.solver, self.state, STEPS, self.dt, frame_every=3, strategy=strategy)
        return tape, made

    def back(self, tape: sim.Tape, made: sim.Trajectory) -> dict[str, np.ndarray]:
        """Positions and gradients; clears these before and after."""
        tape.zero()
        rng, ends = np.random.default_rng(SEED), {"frames": made.particle_q, **outputs(made)}
        seeds = {a: sim.array(rng.normal(size=a.numpy().shape), dtype=a.dtype) for a in ends.values()}
        tape.backward(grads=seeds)
        sources = {**self.model.materials, "start": self.state.particle_q, "force": self.state.particle_f}
        sources |= {"start of velocity": self.state.particle_qd, "factor": self.factor}
        found = {name: a.numpy().copy() for name, a in ends.items()}
        found |= {f"d {name}": a.grad.numpy().copy() for name, a in sources.items() if a.grad is not None}
        found["growth"] = made.adjoint_growth.norms
        tape.zero()
        return found

    def gradient(self, strategy=None, scale=False) -> dict[str, np.ndarray]:
        return self.back(*self.record(strategy, scale))

    def everything(self) -> dict[str, np.ndarray]:
        """Of all kinds of rollouts."""
        found = {f"forward {name}": a for name, a in self.forward().items()}
        for label, strategy in (("all", sim.StoreAll()), ("every 3", sim.Checkpointed(every=3))):
            found |= {f"{label}: {name}": a for name, a in self.gradient(strategy).items()}
        with self.model.gradients_of(NARROW):
            found |= {f"narrow: {name}": a for name, a in self.gradient().items()}
        return found


def write_a_value(used: Used) -> None:
    used.model["sheet.distance.compliance"].assign(used.model["sheet.distance.compliance"].numpy() * 1.5)


def write_a_value_unseen(used: Used) -> None:
    used.model["sheet.distance.damping"].numpy()[:] *= 1.5


def write_gravity(used: Used) -> None:
    used.model.gravity.assign(np.array([[0.5, -9.0, 0.25]]))


def write_the_start(used: Used) -> None:
    used.state.particle_qd.assign(used.state.particle_qd.numpy() + 0.01)


def write_the_start_unseen(used: Used) -> None:
    used.state.particle_q.numpy()[:] += 0.001


def write_forces(used: Used) -> None:
    used.state.particle_f.fill_(0.02)


def write_derived_data(used: Used) -> None:
    """Which is of no use: it is derived again."""
    used.model.particle_inv_mass.fill_(7.0)
    used.model.constraint_sets["distance"].compliance.numpy()[:] = 3.0


def another_value(used: Used) -> None:
    used.model.materials["gravity"] = sim.array([[0.5, -9.0, 0.25]], dtype=sim.vec3d, requires_grad=True)


def other_arrays_of_the_model(used: Used) -> None:
    used.model.particle_drag = sim.full_like(used.model.particle_drag, 0.3)
    distances = used.model.constraint_sets["distance"]
    distances.parameters["rest"] = sim.array(distances.parameters["rest"].numpy() * 1.01, requires_grad=True)


def another_start(used: Used) -> None:
    used.state.particle_q = sim.array(used.state.particle_q.numpy() + 0.001, dtype=sim.vec3d, requires_grad=True)


def other_settings(used: Used) -> None:
    used.solver.iterations, used.solver.order = 2, "jacobi"


def longer_steps(used: Used) -> None:
    used.dt *= 1.25


def fewer_gradients(used: Used) -> None:
    used.model["sheet.density"].requires_grad = False
    used.state.particle_f.requires_grad = False


def fewer_gradients_for_a_while(used: Used) -> None:
    used.model["sheet.distance.compliance"].requires_grad = False
    used.gradient()
    used.model["sheet.distance.compliance"].requires_grad = True


def other_gradient_arrays(used: Used) -> None:
    for a in (used.model.gravity, used.model.constraint_sets["distance"].compliance, used.state.particle_q):
        a.grad = sim.zeros_like(a, requires_grad=False)


def two_threads(used: Used) -> None:
    sim.set_num_threads(2)


def checked_indices(used: Used) -> None:
    sim.set_check_bounds(True)


def forward_mode(used: Used) -> None:
    """Over rollouts of the same solver from the same start."""
    value = used.model["sheet.distance.compliance"]

    def loss(_=None) -> sim.array:
        out = sim.zeros(1, sim.float64, requires_grad=True)
        made = sim.rollout(used.solver, used.state, STEPS, used.dt)
        sim.launch(summed, made.final.particle_q.size, [made.final.particle_q], [out])
        return out

    sim.autograd.hvp(loss, [value], [np.ones(value.shape)])


@sim.kernel
def summed(q: sim.array[sim.vec3d], out: sim.array[sim.float64]):
    sim.atomic_add(out, 0, sim.dot(q[sim.tid()], q[sim.tid()]))


def a_graph(used: Used) -> None:
    with sim.capture() as graph:
        used.gradient()
    graph.replay()


def a_failure(used: Used) -> None:
    """The rollout breaks down: what it had taken of its pool is good still."""
    before = used.state.particle_q.numpy().copy()
    used.state.particle_q.assign(before + np.nan)
    with pytest.raises(FloatingPointError):
        used.gradient()
    used.state.particle_q.assign(before)


CHANGES: tuple[Callable[[Used], None], ...] = (
    write_a_value, write_a_value_unseen, write_gravity, write_the_start, write_the_start_unseen, write_forces,
    write_derived_data, another_value, other_arrays_of_the_model, another_start, other_settings, longer_steps,
    fewer_gradients, fewer_gradients_for_a_while, other_gradient_arrays, two_threads, checked_indices, forward_mode,
    a_graph, a_failure,
)  # fmt: skip


@pytest.fixture(autouse=True)
def settings_of_before() -> Iterator[None]:
    threads = sim.get_num_threads()
    yield
    sim.set_num_threads(threads)
    sim.set_check_bounds(False)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_what_is_changed_between_rollouts_shows(change):
    used = Used()
    for _ in range(2):
        used.everything()
    change(used)
    fresh = Used()
    change(fresh)
    wanted = fresh.everything()
    for _ in range(2):
        same(used.everything(), wanted)


def test_a_value_that_is_written_on_the_tape_counts():
    fresh, used = Used(), Used()
    plain, scaled_by_two = fresh.gradient(), []
    for made in (fresh, used):
        made.factor.assign([2.0])
    for made in (used, used, Used()):
        made.factor.assign([2.0])
        scaled_by_two.append(made.gradient(scale=True))
    same(scaled_by_two[0], scaled_by_two[2])
    same(scaled_by_two[1], scaled_by_two[2])
    assert not np.array_equal(plain["frames"], scaled_by_two[0]["frames"])
    assert np.abs(scaled_by_two[0]["d factor"]).max() > 1e-6


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=3)])
def test_tapes_that_are_open_one_after_the_other(strategy):
    """Backward of the first after the second; and two rollouts on one tape."""
    wanted = Used().gradient(strategy)
    used = Used()
    first, second = used.record(strategy), used.record(strategy)
    same(used.back(*first), wanted)
    same(used.back(*second), wanted)
    for _ in range(2):
        with sim.Tape() as tape:
            for _ in range(2):
                made = sim.rollout(used.solver, used.state, STEPS, used.dt, frame_every=3, strategy=strategy)
        same(used.back(tape, made), wanted)


def test_derived_data_that_is_up_to_date_is_recorded_and_not_derived_again():
    used = Used()
    used.gradient()
    first, made = used.record(None)
    derived = [a.buffer for d in used.model._derivations for a in d.outputs]
    before = [buffer.version for buffer in derived]
    wanted = used.gradient()
    assert [buffer.version for buffer in derived] == before
    copies = [entry for entry in first.memory() if entry.kind == "copy"]
    assert not copies, "the first tape had to keep what the second has overwritten with the same"
    same(used.back(first, made), wanted)


def test_how_many_functions_are_called():
    """What a rollout costs in Python does not depend on how busy a machine is if it is counted.  It was 1,121 for a
    run, 8,498 for a gradient, 599 for a stretch between checkpoints, before what is always the same was captured."""
    used = Used()

    def calls(action: Callable[[], object]) -> int:
        for _ in range(3):
            action()
        count = 0

        def seen(frame, event, arg) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(seen)
        try:
            action()
        finally:
            sys.setprofile(None)
        return count

    def gradient(strategy: object, steps: int) -> None:
        with sim.Tape() as tape:
            made = sim.rollout(used.solver, used.state, steps, used.dt, strategy=strategy)
        tape.backward(grads={made.final.particle_q: weights})
        tape.zero()

    weights = sim.zeros_like(used.state.particle_q, requires_grad=False)
    run = calls(lambda: sim.rollout(used.solver, used.state, 60, used.dt))
    stored = calls(lambda: gradient(sim.StoreAll(), 60))
    few, many = (calls(lambda n=n: gradient(sim.Checkpointed(every=6), n)) for n in (60, 120))
    print(f"{run} calls for a run, {stored} for a gradient, {(many - few) / 10} for a stretch")
    assert run < 900 and stored < 7000 and many - few < 2000
