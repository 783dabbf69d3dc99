"""Rollouts that break off: whatever was under way, the solver is then as a new one, and the tape as if nothing had been
called."""

import random
import threading
from functools import partial

import numpy as np
import pytest
from tools.physics.rollouts import SEED, STEPS, STRATEGIES, SYSTEMS, Case, Interrupted, interrupted, reference, same

import sim
from sim.core.runtime.ambient import observers, open_graphs, recording
from sim.model.derived.derivation import Derivation

ROLLOUT = sim.__file__.replace("__init__.py", "rollout")


def clear(case: Case) -> None:
    """What a user does after Ctrl-C: clears the gradients."""
    for a in case.sources.values():
        if a.grad is not None:
            a.grad.zero_()


def nothing_is_open() -> None:
    assert not (recording.opened.entries or open_graphs.opened.entries or observers.opened.entries)


# ------------------------------------------------------------------------------------------ by place
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("system", ["cloth", "semi-implicit"])
@pytest.mark.parametrize("strategy", ["all", "every 3"])
def test_a_step_that_raises(strategy, system, known, monkeypatch):
    """Step k of a first run (where it is captured), or of one that is known; the way back is captured later."""
    for k in (0, 1, STEPS - 1, STEPS):
        case = Case(SYSTEMS[system]())
        if known:
            case.result(STRATEGIES[strategy])
        taken, right = [0], type(case.solver).step

        def step(self, *args, taken=taken, k=k, right=right):
            taken[0] += 1
            if taken[0] == k + 1:
                raise Interrupted
            right(self, *args)

        monkeypatch.setattr(type(case.solver), "step", step)
        try:
            case.record(STRATEGIES[strategy])
        except Interrupted:
            assert not known
        monkeypatch.undo()
        nothing_is_open()
        same(case.result(STRATEGIES[strategy]), reference(system))


@pytest.mark.parametrize(
    ("system", "strategy"), [("cloth", "all"), ("jacobi", "every 3"), ("elastic", "all"), ("iterated", "budget")]
)
def test_interruptions_at_any_line_of_the_rollout(system, strategy):
    """Of those of `sim/rollout` alone, forward: at many lines in turn, on one solver."""
    rng, case = random.Random(SEED), Case(SYSTEMS[system]())
    want = reference(system)  # after this everything is compiled
    events = interrupted(partial(case.record, STRATEGIES[strategy]), None, inside=ROLLOUT)
    for k in range(12):
        if k % 3 == 0:
            case = Case(case.solver.__class__(case.model, *settings(case.solver)))
        interrupted(
            partial(case.record, STRATEGIES[strategy]), rng.randrange(events), rng.choice(["line", "return"]), ROLLOUT
        )
        nothing_is_open()
        same(case.result(STRATEGIES[strategy]), want)


def settings(solver):
    return solver.iterations, solver.order, solver.start


def test_interruptions_anywhere_forward():
    """At any line of anything that a rollout runs: launches, live-ins, graphs."""
    rng, case = random.Random(SEED), Case(SYSTEMS["cloth"]())
    for action in (
        lambda: case.rollout(),
        lambda: taped(case, sim.Checkpointed(every=2)),
        lambda: taped(case, sim.StoreAll()),
    ):
        action()
        events = interrupted(action, None)
        for _ in range(12):
            interrupted(action, rng.randrange(events))
            nothing_is_open()
            same(case.result(sim.Checkpointed(every=2)), reference("cloth"))


def taped(case: Case, strategy) -> None:
    """A rollout on a tape that is opened without the trace, which would find its first and last lines too."""
    with sim.Tape():
        case.rollout(strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_way_back_that_breaks_off(strategy):
    """In its first run, where it is captured, and later; the same tape goes back again, and others do."""
    rng, case = random.Random(SEED), Case(SYSTEMS["iterated"]())
    for k in range(10):
        if k % 3 == 0:
            case = Case(sim.SolverXPBD(case.model, *settings(case.solver)))
        recorded, other = case.record(STRATEGIES[strategy]), Case(case.solver).record(STRATEGIES[strategy])
        run = recorded.tape.records[-1].run
        for a in recorded.made.arrays[:-1]:
            a.grad.fill_(1.0)
        events = interrupted(run, None, inside=ROLLOUT) if k % 3 else 150
        interrupted(run, rng.randrange(events), rng.choice(["line", "return"]), ROLLOUT)
        nothing_is_open()
        for tape in (recorded.tape, other.tape):
            tape.zero()
        clear(case)
        same((recorded if k % 2 else other).result(), reference("iterated"))
        same(case.result(STRATEGIES[strategy]), reference("iterated"))


# ------------------------------------------------------------------------------------------ what a tape knows of it
def broken(case: Case, strategy) -> None:
    """A rollout that becomes infinite half way."""
    state = case.model.state()
    state.particle_qd.fill_(1e200)
    state.particle_f.fill_(1e308)
    with pytest.raises(sim.NonFiniteState):
        sim.rollout(case.solver, state, STEPS, case.dt, case.control, frame_every=1, strategy=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("system", ["cloth", "elastic"])
def test_a_failed_try_leaves_nothing_on_the_tape(system, strategy):
    """Non-finite, or interrupted: the try after it, on the same tape, has the gradient of one that was alone."""
    rng = random.Random(SEED)
    for fail in (lambda case: broken(case, STRATEGIES[strategy]), None):
        case = Case(SYSTEMS[system]())
        wanted = reference(system)
        if fail is None:
            Case(SYSTEMS[system]()).rollout(STRATEGIES[strategy])  # what is compiled now is no event below
            other = Case(SYSTEMS[system]())  # as the tries below: nothing is captured yet, and a tape is open
            events = interrupted(lambda other=other: other.record(STRATEGIES[strategy]), None)
        with sim.Tape() as tape:
            before = None
            for _ in range(3):
                if fail is not None:
                    fail(case)
                else:
                    interrupted(lambda case=case: case.rollout(STRATEGIES[strategy]), rng.randrange(events * 9 // 10))
                names = [str(r) for r in tape.records]
                assert f"rollout of {STEPS} steps" not in names
                live_ins = {c.reader for c in tape._live_ins.present()}
                assert not any("rollout" in reader for reader in live_ins)
                before = before or live_ins
                derived = [d.kernel.name for d in case.model._derivations if isinstance(d, Derivation)]
                assert live_ins <= before | {f"launch of '{name}'" for name in derived}
            made = case.rollout(STRATEGIES[strategy])
        weights = {made.final.particle_q: sim.ones_like(made.final.particle_q)}
        tape.backward(grads=weights)
        fresh = Case(SYSTEMS[system]())
        recorded = fresh.record(sim.StoreAll())
        recorded.tape.backward(grads={recorded.made.final.particle_q: sim.ones_like(made.final.particle_q)})
        np.testing.assert_array_equal(made.particle_q.numpy(), wanted["frames"])
        for name, a in case.sources.items():
            if a.grad is not None:
                np.testing.assert_array_equal(a.grad.numpy(), fresh.sources[name].grad.numpy(), err_msg=name)


def test_a_failed_try_is_not_run_again_from_the_start():
    """A simulation that broke down between two steps spoils no graphs: an optimiser's next try does not capture
    anew."""
    case = Case(SYSTEMS["cloth"]())
    case.result()
    taken, right = [0], type(case.solver).step
    broken(case, None)

    def step(self, *args):
        taken[0] += 1
        right(self, *args)

    type(case.solver).step = step
    try:
        same(case.result(), reference("cloth"))
    finally:
        type(case.solver).step = right
    assert taken[0] == 0


def test_a_failed_try_launch_by_launch():
    """Under the detector of numbers that are not finite, which says where; what was on the tape before stays on it."""
    case = Case(SYSTEMS["cloth"]())
    with sim.Tape() as tape:
        middle = case.rollout().final
        count, live_ins, cut = len(tape.records), tape._live_ins.present(), dict(tape._detached.by_buffer)
        start = case.model.state()
        start.particle_q.fill_(float("inf"))
        added = len(tape.records) - count
        with sim.autograd.detect_nonfinite(), pytest.raises(sim.autograd.NonFiniteError, match="step 1 of 7"):
            sim.rollout(case.solver, start, STEPS, case.dt)
        new = tape.records[count + added :]
        derived = {f"launch of '{d.kernel.name}'" for d in case.model._derivations if isinstance(d, Derivation)}
        assert {str(r) for r in new} <= derived | {"copy"}  # of values, where somebody looks on
        assert {c.reader for c in tape._live_ins.present() - live_ins} <= derived
        assert tape._detached.by_buffer == cut
    tape.backward(grads={middle.particle_q: sim.ones_like(middle.particle_q)})
    assert np.isfinite(case.model.gravity.grad.numpy()).all()


def test_forward_mode_that_breaks_off():
    """A Hessian-vector product through a rollout, interrupted: the next is right, and so are gradients."""
    builder = sim.ModelBuilder()
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((1.5, 0, 0), mass=1.0)
    builder.add_spring(0, 1, compliance=1e-3, rest_length=1.0)
    case = Case(sim.SolverXPBD(builder.finalize(dtype=sim.float64, requires_grad=True)))
    rng, value, gradient = random.Random(SEED), case.model["springs.compliance"], case.result()

    def loss(_):
        out = sim.zeros(1, sim.float64, requires_grad=True)
        case.renew()
        sim.launch(squares, 2, [case.rollout().final.particle_q], [out])
        return out

    def product():
        return sim.autograd.hvp(loss, [value], [1.0])[0].numpy().copy()

    wanted = product()
    events = interrupted(product, None)
    for _ in range(6):
        interrupted(product, rng.randrange(events // 2), inside=ROLLOUT)
        clear(case)
        np.testing.assert_array_equal(product(), wanted)
        same(case.result(), gradient)
    assert abs(wanted[0]) > 0


@sim.kernel
def squares(x: sim.array[sim.vec3d], out: sim.array[sim.float64]):
    sim.atomic_add(out, 0, sim.dot(x[sim.tid()], x[sim.tid()]))


# ------------------------------------------------------------------------------------------ several at once
def test_tapes_that_share_a_solver():
    """Recorded in turn, gone back in any order, twice, with other strategies in between."""
    case, want = Case(SYSTEMS["iterated"]()), reference("iterated")
    recorded = [Case(case.solver).record(STRATEGIES[name]) for name in ("all", "every 3", "all", "budget")]
    shorter = Case(case.solver).record(sim.StoreAll(), steps=4)
    for k in (1, 0, 3, 2, 2, 0):
        same(recorded[k].result(), want)
        sim.rollout(case.solver, case.state, k + 2, case.dt, case.control)
    same(shorter.result(), reference("iterated", 4))


def test_gradient_norms_and_a_rollout_inside():
    """Who watches the way back may run the solver himself."""
    case = Case(SYSTEMS["cloth"]())
    recorded, want = case.record(sim.Checkpointed(every=3)), reference("cloth")
    with sim.autograd.gradient_norms() as log:
        same(recorded.result(), want)
    assert log.places == [f"step {k + 1} of {STEPS}" for k in range(STEPS)] and (log.norms["particle_q"] > 0).all()
    other = Case(case.solver)
    from_inside = []
    with sim.core.runtime.tape.probes.watching(
        lambda name, arrays: from_inside.append(other.rollout(sim.StoreAll()).particle_q.numpy().copy())
    ):
        same(recorded.result(), want)
    assert len(from_inside) == STEPS
    np.testing.assert_array_equal(from_inside[0], want["frames"])


@pytest.mark.parametrize("shared", [False, True], ids=["own solvers", "one solver"])
def test_threads(shared):
    """Two Python threads run rollouts side by side, of solvers of their own or of one; gradients by starts of their
    own."""
    solvers = [SYSTEMS["iterated"]() for _ in range(1 if shared else 3)] * (3 if shared else 1)
    cases, wanted, failures = [Case(s) for s in solvers], reference("iterated"), []

    def work(case: Case) -> None:
        try:
            for k in range(6):
                made = case.record(sim.Checkpointed(every=2 + k % 3)) if not shared else None
                if made is not None:
                    same(made.result(), wanted)
                np.testing.assert_array_equal(case.rollout().particle_q.numpy(), wanted["frames"])
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_gradients_of_some_values_end_wherever_that_breaks_off():
    """At any line on the way in or out: then all values have gradients again, and states have forces with some."""
    model = SYSTEMS["cloth"]().model

    def narrow():
        with model.gradients_of(["sheet.distance.compliance"]):
            pass

    def flags():
        return [a.requires_grad for a in (*model.materials.values(), *model.arrays.values())]

    before = flags()
    for at in range(interrupted(narrow, None)):
        interrupted(narrow, at)
        assert flags() == before and model.state().particle_f.requires_grad, at
