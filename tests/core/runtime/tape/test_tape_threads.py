"""Several threads of Python with tapes of their own that share arrays."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sim

N, THREADS, ROUNDS = 20_000, 4, 12
COMPLIANCE = "rope.distance.compliance"


@sim.kernel
def weigh(x: sim.array(dtype=sim.float64), loss: sim.array(dtype=sim.float64)):
    i = sim.tid()
    sim.atomic_add(loss, 0, x[i] * x[i])


def test_threads_add_to_the_gradient_of_one_array():
    """d(sum x^2)/dx = 2 x, added up over all threads and rounds: nothing that one of them adds is lost."""
    x = sim.array(np.linspace(0.5, 1.5, N), dtype=sim.float64, requires_grad=True)

    def work(_: int) -> None:
        for _ in range(ROUNDS):
            loss = sim.zeros(1, dtype=sim.float64, requires_grad=True)
            with sim.Tape() as tape:
                sim.launch(weigh, N, [x], [loss])
            tape.backward(loss)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * THREADS * ROUNDS * x.numpy(), rtol=1e-12)


def rope() -> sim.Model:
    """Of five links, which spins."""
    builder = sim.ModelBuilder()
    material = {"distance": {"compliance": 1e-3}}
    builder.add_chain((0, 0, 0), (1, 0, 0), 6, mass=0.1, label="rope", spin=(0, 0, 9), material=material)
    return builder.finalize(requires_grad=True, dtype=sim.float64)


def add_gradient(model: sim.Model, solver: sim.SolverXPBD | None = None) -> None:
    """Of the compliance, of a rollout."""
    with sim.Tape() as tape:
        end = sim.rollout(solver or sim.SolverXPBD(model), model.state(), 16, 2e-3).final
    tape.backward(grads={end.particle_q: np.arange(18.0).reshape(6, 3) ** 2})


def test_threads_with_rollouts_of_one_model():
    """Each thread has a solver and a tape of its own; the gradient of the compliance is four times that of one."""
    alone, shared = rope(), rope()
    add_gradient(alone)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(add_gradient, [shared] * THREADS))
    assert np.abs(alone[COMPLIANCE].grad.numpy()).max() > 0.1
    np.testing.assert_allclose(shared[COMPLIANCE].grad.numpy(), THREADS * alone[COMPLIANCE].grad.numpy(), rtol=1e-12)


def test_what_another_thread_overwrites_is_kept_apart_from_what_the_tape_takes():
    """The arena of a tape is no place for two threads at once: both got the same piece, and a gradient was garbage in
    one of sixty rounds of the test above, with threads that take turns every 10 us."""
    x, y = (sim.array(np.arange(5.0), dtype=sim.float64, requires_grad=True) for _ in range(2))
    with sim.Tape() as tape:
        loss = sim.zeros(1, dtype=sim.float64, requires_grad=True)
        sim.launch(weigh, 5, [x], [loss])
        before = tape.arena.taken
        other = threading.Thread(target=sim.copy, args=(x, sim.array(np.ones(5), dtype=sim.float64)))
        other.start()
        other.join()
        assert tape.arena.taken == before
        sim.launch(weigh, 5, [y], [loss])
        sim.copy(y, sim.array(np.ones(5), dtype=sim.float64))
        assert tape.arena.taken > before
    tape.backward(loss)
    for a in (x, y):
        np.testing.assert_array_equal(a.grad.numpy(), 2.0 * np.arange(5.0))
