"""A program as users write it, which mypy and pyright find nothing in: annotations are types, values have them."""

from typing import assert_type

import numpy as np

import sim


@sim.struct
class Spring:
    rest: float
    stiffness: float


@sim.func
def energy_of(a: sim.vec3, b: sim.vec3, spring: Spring) -> float:
    stretch = sim.length(b - a) - spring.rest
    return 0.5 * spring.stiffness * stretch * stretch


@sim.kernel
def energies(x: sim.array[sim.vec3], spring: Spring, weights: sim.array2d[float], out: sim.array[float]):
    i = sim.tid()
    up = sim.vec3(0.0, 1.0, 0.0)
    lifted = x[i] + 2.0 * up * weights[i, 0]
    turned = sim.quat_rotate(sim.quat_identity(), lifted - up / 2.0)
    if turned.y > 0.0 and i % 2 == 0:
        turned = -turned
    for k in range(3):
        turned[k] += sim.sin(sim.float32(k))
    sim.atomic_add(out, 0, energy_of(x[i], turned, spring))


@sim.kernel
def rotate(frames: sim.array[sim.mat33], poses: sim.array[sim.transform], out: sim.array[sim.vec3d]):
    i, j = sim.tid()
    v = frames[i] @ sim.transform_point(poses[j], sim.vec3(1.0))
    out[i] = sim.vec3d(sim.float64(v[0]), sim.float64(v[1]), sim.float64(v[2]))


def run(count: int = 4) -> float:
    x = sim.zeros(count, dtype=sim.vec3, requires_grad=True)
    weights = sim.array2d(np.ones((count, 1)), dtype=float)
    spring = Spring()
    spring.rest, spring.stiffness = 0.5, 10.0
    out = sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(energies, dim=count, inputs=[x, spring, weights], outputs=[out])
    tape.backward(out)
    moved = sim.vec3(1.0, 2.0, 3.0) + sim.vec3(1.0)
    assert_type(moved, sim.vec3)
    assert_type(moved.x, float)
    assert_type(sim.vec2i(1, 2).y, int)
    return float(out.numpy()[0])


if __name__ == "__main__":
    print(run())
