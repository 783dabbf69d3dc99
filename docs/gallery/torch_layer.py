# %% [markdown]
# # A layer in PyTorch
#
# Rubber gets stiffer as it gets warmer, they say: bands with a weight were let go at twelve
# temperatures. A module of PyTorch maps the temperature to a compliance, a simulation maps the
# compliance to the motion, and the loss is back-propagated through both. `sim.torch_function` makes
# a layer of a simulation: here of twelve of them at once, one per temperature.
#
# It takes `pip install torch`; the truth is the closed form of a damped spring.

# %%
import numpy as np
import torch

import sim

BASE, SLOPE = np.log(0.05), -8e-3  # log of the compliance [m/N] at 20 degrees; its change per degree
MASS, DAMPING, NOISE = 0.2, 10e-3, 1e-3  # kg, s, m
FPS, FRAMES, SUBSTEPS = 40, 30, 12
degrees = torch.linspace(0, 55, 12, dtype=torch.float64)

# %% [markdown]
# ## The simulation
#
# One band: a link, a pinned end and a weight. `replicate` makes twelve worlds of it, with a
# compliance each.

# %%
builder = sim.ModelBuilder()
material = {"distance": {"compliance": 0.1, "damping": DAMPING}}
band = builder.add_chain((0, 0, 0), (0, -0.3, 0), points=2, mass=2 * MASS, label="band", material=material)
builder.add_attachment([0], label="hook")
builder.replicate(len(degrees))
model = builder.finalize(dtype=sim.float64, requires_grad=True)
solver = sim.SolverXPBD(model, integrator="bdf2")
weights = torch.tensor([model.groups["band"].of_world(w)[1] for w in range(len(degrees))])


def swing(compliance: sim.array) -> sim.array:
    """Frames (FRAMES, particles) of all bands, from their compliances (12,) [m/N]."""
    sim.copy(model["band.distance.compliance"], compliance)  # recorded, like any launch
    return sim.rollout(
        solver, model.state(), steps=FRAMES * SUBSTEPS, dt=1 / (FPS * SUBSTEPS), frame_every=SUBSTEPS,
        strategy=sim.Checkpointed(every=20),
    ).particle_q  # fmt: skip


layer = sim.torch_function(swing)

# %% [markdown]
# ## The network
#
# As small as can be: one linear unit. What is behind it does not care what stands here.


# %%
class Rubber(torch.nn.Module):
    """Heights (FRAMES, 12) [m] of the weights at temperatures (12,) [degrees]."""

    def __init__(self):
        super().__init__()
        self.law = torch.nn.Linear(1, 1, dtype=torch.float64)
        torch.nn.init.constant_(self.law.weight, 0.0)
        torch.nn.init.constant_(self.law.bias, np.log(0.08))

    def forward(self, degrees):
        scaled = (degrees[:, None] - 20) / 20
        return layer(torch.exp(self.law(scaled)[:, 0]))[:, weights, 1]


# %% [markdown]
# ## What was filmed

# %%
compliances = np.exp(BASE + SLOPE * (degrees.numpy() - 20))
omega = 1 / np.sqrt(MASS * compliances)
zeta = 0.5 * omega * DAMPING
damped, times = omega * np.sqrt(1 - zeta**2), np.arange(1, FRAMES + 1)[:, None] / FPS
free = np.exp(-zeta * omega * times) * (np.cos(damped * times) + zeta * omega / damped * np.sin(damped * times))
noise = np.random.default_rng(8).normal(scale=NOISE, size=free.shape)
seen = torch.from_numpy(-0.3 - MASS * 9.81 * compliances * (1 - free) + noise)

# %% [markdown]
# ## Training

# %%
rubber = Rubber()
optimizer = torch.optim.LBFGS(rubber.parameters(), max_iter=20, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = torch.mean(((rubber(degrees) - seen) / NOISE) ** 2)
    loss.backward()
    return loss


optimizer.step(closure)
print(f"mean square over the noise: {closure().item():.3f}")

# %% [markdown]
# ## What it has learnt
#
# Standard errors from the Jacobian of the heights by the two weights of the network.

# %%
values = {"slope": rubber.law.weight, "base": rubber.law.bias}
columns = []
with torch.no_grad():
    for value in values.values():
        at = []
        for change in (1e-4, -2e-4, 1e-4):
            value += change
            at.append(rubber(degrees).numpy().ravel())
        columns.append((at[0] - at[1]) / 2e-4 / NOISE)
errors = np.sqrt(np.diag(np.linalg.inv(np.stack(columns) @ np.stack(columns).T)))
for (name, value), error, true in zip(values.items(), errors, (20 * SLOPE, BASE), strict=True):
    found = value.item()
    print(f"{name}: found {found:.5f} +- {error:.5f}, true {true:.5f}: {(found - true) / error:+.1f} errors off")
    assert abs(found - true) < 3 * error
