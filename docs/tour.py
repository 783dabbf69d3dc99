# %% [markdown]
# # A tour
#
# From a kernel to an identified parameter, in eight steps.

# %%
import numpy as np

import sim

# %% [markdown]
# ## 1. A kernel
#
# A kernel is a typed Python function that runs once per thread. `tid()` is the number of the
# thread.

# %%


@sim.kernel
def spring_energy(x: sim.array[sim.vec3], stiffness: sim.array[float], energy: sim.array[float]):
    i = sim.tid()
    stretch = sim.length(x[i + 1] - x[i]) - 1.0
    sim.atomic_add(energy, 0, 0.5 * stiffness[0] * stretch * stretch)


points = sim.array([[0, 0, 0], [1.1, 0, 0], [2.3, 0.1, 0]], dtype=sim.vec3, requires_grad=True)
stiffness = sim.array([100.0], dtype=float, requires_grad=True)
energy = sim.zeros(1, dtype=float, requires_grad=True)

# %% [markdown]
# ## 2. A tape
#
# A tape sees every launch and every write; `backward` fills the gradients of all arrays that asked
# for them.

# %%

with sim.Tape() as tape:
    sim.launch(spring_energy, dim=2, inputs=[points, stiffness], outputs=[energy])
tape.backward(loss=energy)
print("energy", energy.numpy()[0], "force on the last point", -points.grad.numpy()[2])
assert np.isclose(stiffness.grad.numpy()[0], energy.numpy()[0] / 100.0, rtol=1e-5)

# %% [markdown]
# ## 3. A gradient is right, or it is an error
#
# This kernel overwrites what it has read, many times: still right.

# %%


@sim.kernel
def decay(x: sim.array[float], rate: sim.array[float]):
    i = sim.tid()
    x[i] = x[i] - rate[0] * x[i] * x[i]


x = sim.array([0.5, 0.9], dtype=sim.float32, requires_grad=True)
rate = sim.array([0.1], dtype=float, requires_grad=True)
with sim.Tape() as tape:
    for _ in range(20):
        sim.launch(decay, dim=2, inputs=[x, rate])
tape.backward(grads={x: sim.ones_like(x)})


def total(value: float) -> float:
    numbers = np.array([0.5, 0.9])
    for _ in range(20):
        numbers -= value * numbers**2
    return float(numbers.sum())


difference = (total(0.1 + 1e-4) - total(0.1 - 1e-4)) / 2e-4
print("d/d rate", rate.grad.numpy()[0], "by differences", difference)
assert np.isclose(rate.grad.numpy()[0], difference, rtol=1e-3)

# %% [markdown]
# ## 4. A constraint
#
# A constraint is declared once, as C(x). Its gradient, its projection and its adjoint follow from
# that.

# %%


@sim.constraint(points=3)
def flat(x, rest: float):
    """Area of the triangle (x0, x1, x2) minus its rest value.  C [m^2]."""
    return 0.5 * sim.length(sim.cross(x[1] - x[0], x[2] - x[0])) - rest


# %% [markdown]
# ## 5. A model
#
# A model is built from objects and their materials, and stepped by a solver.

# %%

builder = sim.ModelBuilder(gravity=(0.0, -9.81, 0.0))
builder.add_cloth_grid(
    pos=(0, 0, 0),
    dim_x=8,
    dim_y=8,
    cell_x=0.125,
    cell_y=0.125,
    density=0.2,
    fix_top=True,
    label="sheet",
    material={"distance": {"compliance": 0.05, "damping": 1e-3}},
)
builder.add_constraints(flat, points=builder.tri_indices, compliance=1e-3)
model = builder.finalize(dtype=sim.float64, requires_grad=True)
solver = sim.SolverXPBD(model)
compliance = model["sheet.distance.compliance"]


def simulate() -> sim.array:
    """Positions (10, 81) of ten frames."""
    return sim.rollout(
        solver, model.state(), steps=100, dt=1 / 500, frame_every=10, strategy=sim.Checkpointed(every=10)
    ).particle_q


# %% [markdown]
# ## 6. A parameter is found
#
# "Measure" the sheet at one compliance, start from another one, and follow the gradient through all
# hundred steps.

# %%

compliance.fill_(0.02)
measured = simulate().numpy().copy()


def value_and_grad(log_compliance: np.ndarray) -> tuple[float, np.ndarray]:
    compliance.fill_(float(np.exp(log_compliance[0])))
    with sim.Tape() as tape:
        frames = simulate()
    error = frames.numpy() - measured
    tape.backward(grads={frames: sim.array(2.0 * error / error.size, dtype=sim.vec3d)})
    gradient = compliance.grad.numpy() * compliance.numpy()  # with respect to the logarithm
    tape.zero()
    return float((error**2).mean()), gradient


found = sim.optim.LBFGS().minimize(value_and_grad, np.log([0.1]))
print(f"compliance {np.exp(found.x[0]):.5f} m/N (true 0.02000)")
assert abs(np.exp(found.x[0]) / 0.02 - 1.0) < 1e-3

# %% [markdown]
# ## 7. Few steps
#
# Residuals know more than their gradient: Gauss-Newton takes J'WJ and J'Wr, from one more rollout,
# and few steps.

# %%


def residuals(log_compliance: float) -> np.ndarray:
    compliance.fill_(float(np.exp(log_compliance)))
    return (simulate().numpy() - measured).ravel() / np.sqrt(measured.size)


def normal_equations(log_compliance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """J'J (1, 1) and -J'r (1,), J by a difference (with several parameters: one rollout more for each)."""
    r = residuals(log_compliance[0])
    slope = (residuals(log_compliance[0] + 1e-4) - r) / 1e-4
    return np.array([[slope @ slope]]), np.array([-(slope @ r)])


quick, steps = sim.optim.GaussNewton(normal_equations), 0
quick.begin(value_and_grad, np.log([0.1]))
while quick.value > 1e-12 and not quick.step(value_and_grad).stopped:
    steps += 1
print(f"compliance {np.exp(quick.x[0]):.5f} m/N by Gauss-Newton in {steps} steps (L-BFGS: {found.iterations})")
assert abs(np.exp(quick.x[0]) / 0.02 - 1.0) < 1e-3

# %% [markdown]
# ## 8. As a file
#
# All of that is also a scene in a file: `simopt run scenes/chain.yaml` simulates, searches and
# writes a report, and [the gallery](gallery/index.md) has eight examples of it.
