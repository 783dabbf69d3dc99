"""Several threads of Python with tapes of their own that share arrays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sim

N, THREADS, ROUNDS = 20_000, 4, 12


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


def test_threads_with_rollouts_of_one_model():
    """Each thread has a solver and a tape of its own; the gradient of the compliance is four times that of one."""

    def gradient(model: sim.Model) -> None:
        with sim.Tape() as tape:
            end = sim.rollout(sim.SolverXPBD(model), model.state(), 12, 2e-3).final
        tape.backward(grads={end.particle_q: np.arange(18.0).reshape(6, 3) ** 2})

    def chain() -> sim.Model:
        builder = sim.ModelBuilder()
        material = {"distance": {"compliance": 1e-3}}
        builder.add_chain((0, 0, 0), (1, 0, 0), 6, mass=0.1, label="rope", spin=(0, 0, 9), material=material)
        return builder.finalize(requires_grad=True, dtype=sim.float64)

    alone, shared = chain(), chain()
    gradient(alone)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(gradient, [shared] * THREADS))
    path = "rope.distance.compliance"
    assert np.abs(alone[path].grad.numpy()).max() > 0.1
    np.testing.assert_allclose(shared[path].grad.numpy(), THREADS * alone[path].grad.numpy(), rtol=1e-12)
