# %% [markdown]
# # A program from Warp
#
# Shuttlecocks are dropped and filmed; how large is their drag? The program is written for NVIDIA
# Warp, and one line is changed: the import. It overwrites positions and velocities in place, forty
# times. In Warp such a program runs, and its gradient is wrong without a word, unless its check of
# overwritten arrays is switched on; one would keep an array for every step. Here the tape keeps
# what is overwritten and needed.

# %%
import numpy as np

import sim as wp  # was: import warp as wp

TRUE_DRAG, NOISE = 0.22, 5e-3  # 1/m, m
BIRDS, STEPS, DT = 20, 40, 0.025  # s
rng = np.random.default_rng(7)


@wp.func
def acceleration(v: wp.vec3, drag: float):
    return wp.vec3(0.0, -9.81, 0.0) - drag * wp.length(v) * v


@wp.kernel
def step(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), drag: wp.array(dtype=float), dt: float):
    i = wp.tid()
    before = v[i]
    first = acceleration(before, drag[0])
    second = acceleration(before + dt * first, drag[0])
    v[i] = before + 0.5 * dt * (first + second)
    x[i] = x[i] + 0.5 * dt * (before + v[i])


@wp.kernel
def compare(x: wp.array(dtype=wp.vec3), seen: wp.array2d(dtype=wp.vec3), k: int, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(x[i] - seen[k, i]))


# %% [markdown]
# ## What was filmed
#
# From the closed form: a body that falls with quadratic drag has come log(cosh(t sqrt(g d))) / d
# far.

# %%
times = DT * np.arange(1, STEPS + 1)
fallen = np.log(np.cosh(times * np.sqrt(9.81 * TRUE_DRAG))) / TRUE_DRAG
places = np.zeros((STEPS, BIRDS, 3), np.float32)
places[:, :, 1] = -fallen[:, None]
seen = wp.array(places + rng.normal(scale=NOISE, size=places.shape).astype(np.float32), dtype=wp.vec3)

# %% [markdown]
# ## Is the gradient right?
#
# Beside it stands a difference of two misfits. Warp 1.19 has the same misfit for this program,
# 30.473 m^2, and the same difference; its gradient is -21156.

# %%
drag = wp.array([0.1], dtype=float, requires_grad=True)


def misfit(drag):
    """The sum of squared distances between simulated and filmed places [m^2]."""
    x = wp.zeros(BIRDS, dtype=wp.vec3, requires_grad=True)
    v = wp.zeros(BIRDS, dtype=wp.vec3, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    for k in range(STEPS):
        wp.launch(step, dim=BIRDS, inputs=[x, v, drag, DT])
        wp.launch(compare, dim=BIRDS, inputs=[x, seen, k], outputs=[loss])
    return loss


with wp.Tape() as tape:
    loss = misfit(drag)
tape.backward(loss)
low, high = (misfit(wp.array([0.1 + h], dtype=float)).numpy()[0] for h in (-0.01, 0.01))
print(f"misfit {loss.numpy()[0]:.3f} m^2")
print(f"gradient {drag.grad.numpy()[0]:.1f}, by a difference {(high - low) / 0.02:.1f}")
assert abs(drag.grad.numpy()[0] - (high - low) / 0.02) < 5

# %% [markdown]
# ## Descent along the gradient

# %%
tape.zero()
optimizer = wp.optim.Adam([drag], lr=0.02)
for _ in range(100):
    with wp.Tape() as tape:
        loss = misfit(drag)
    tape.backward(loss)
    optimizer.step([drag.grad])
    tape.zero()
print(f"drag {drag.numpy()[0]:.4f} 1/m, root mean square {1e3 * np.sqrt(loss.numpy()[0] / seen.numpy().size):.2f} mm")

# %% [markdown]
# ## How well is it known?
#
# The second derivative of the misfit, by forward mode over the reverse sweep (not in Warp), gives
# the standard error: for residuals of variance s^2 it is sqrt(2 s^2 / misfit'').

# %%
[curvature] = wp.autograd.hvp(misfit, [drag], [np.ones(1)])
found, error = drag.numpy()[0], np.sqrt(2 * NOISE**2 / curvature.numpy()[0])
print(
    f"drag: found {found:.5f} +- {error:.5f} 1/m, true {TRUE_DRAG:.5f}: {(found - TRUE_DRAG) / error:+.1f} errors off"
)
assert abs(found - TRUE_DRAG) < 3 * error
