"""How stretchy is a hanging sheet?  Identified through 150 XPBD steps, with a constraint and kernels of our own."""

import numpy as np
import sim


@sim.constraint(points=3)
def area(x, rest: float):
    """Area of the triangle (x0, x1, x2) minus its rest value.  C [m^2]."""
    return 0.5 * sim.length(sim.cross(x[1] - x[0], x[2] - x[0])) - rest


@sim.kernel
def from_log(log_value: sim.array[float], value: sim.array[float]):
    i = sim.tid()
    value[i] = sim.exp(log_value[0])


@sim.kernel
def mean_square(x: sim.array2d[sim.vec3], target: sim.array2d[sim.vec3], loss: sim.array[float]):
    frame, point = sim.tid()
    d = x[frame, point] - target[frame, point]
    sim.atomic_add(loss, 0, sim.dot(d, d) / float(x.shape[0] * x.shape[1]))


n = 16
builder = sim.ModelBuilder(gravity=(0.0, -9.81, 0.0))
builder.add_cloth_grid(
    pos=(0.0, 0.0, 0.0),
    dim_x=n,
    dim_y=n,
    cell_x=1 / n,
    cell_y=1 / n,
    mass=0.2 / (n + 1) ** 2,
    fix_top=True,
    label="sheet",
    material={"distance": {"compliance": 0.1, "damping": 1e-3}, "bend": {"compliance": 3e3}},
)
builder.add_constraints(area, points=builder.tri_indices, compliance=1e-4)  # rest is measured on the rest shape
model = builder.finalize(device="cpu", requires_grad=True)
solver = sim.SolverXPBD(model, iterations=1)
compliance = model["sheet.distance.compliance"]  # a material value: label.constraint.key; one for the sheet, shape (1,)


def simulate(log_compliance):
    sim.launch(from_log, dim=compliance.shape, inputs=[log_compliance], outputs=[compliance])
    return sim.rollout(
        solver, model.state(), steps=150, dt=1 / 600, frame_every=10, strategy=sim.Checkpointed(every=12)
    )


target = simulate(sim.array([np.log(0.02)], dtype=float)).particle_q  # (15, 289) vec3: the "measurement"
log_compliance = sim.array([np.log(0.1)], dtype=float, requires_grad=True)  # five times too soft
loss = sim.zeros(1, dtype=float, requires_grad=True)
optimizer = sim.optim.Adam([log_compliance], lr=0.2)
for iteration in range(60):
    loss.zero_()
    with sim.Tape() as tape:
        frames = simulate(log_compliance)
        sim.launch(mean_square, dim=target.shape, inputs=[frames.particle_q, target], outputs=[loss])
    tape.backward(loss=loss)
    optimizer.step([log_compliance.grad])
    tape.zero()
found = float(np.exp(log_compliance.numpy()[0]))
print(f"compliance {found:.4f} m/N (true 0.0200), loss {loss.numpy()[0]:.2e} m^2")
assert abs(found / 0.02 - 1.0) < 0.05
