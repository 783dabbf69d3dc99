"""What forces add to the velocities of particles and bodies in a step."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.particles import particle_layout
from sim.constraints.projection import solve
from sim.constraints.slots.bodies import body_struct, in_world, matrix_in_world
from sim.constraints.slots.rotations import logarithm
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel


@func
def spin_of(b, turn, bodies, momentum, impulse, dt):
    """The angular velocity of a body in the step so far, as it ends the step with."""
    omega = logarithm(turn) / dt
    if bodies.inv_mass[b] > 0.0:
        omega = in_world(turn * bodies.q[b], bodies.inv_inertia[b], momentum[b] + impulse[b] / dt)
    return omega


@memoize
def make_gains(real: Scalar) -> tuple[Kernel, Kernel]:
    """Velocities of particles, and of bodies, in the step so far, and what forces have added to them: of what turns not
    what the same momentum makes of it, as its inertia turns with it."""
    vec3, spatial, quat, Bodies = vector(3, real), vector(6, real), quaternion(real), body_struct(real)
    layout = particle_layout(real)

    @kernel
    def gains(
        particle: array[layout.type(real)],
        x_ref: array[vec3],
        v: array[vec3],
        dt: real,
        found: array[vec3],
        gained: array[vec3],
    ):
        i = tid()
        now = layout.displacement(particle[i], x_ref[i]) / dt
        found[i], gained[i] = now, now - v[i]

    @kernel
    def body_gains(
        bodies: Bodies,
        momentum: array[vec3],
        body_qd: array[spatial],
        dt: real,
        dx: array[vec3],
        turn: array[quat],
        turning: array[vec3],
        found: array[spatial],
        gained: array[spatial],
    ):
        i = tid()
        v, omega = dx[i] / dt, spin_of(i, turn[i], bodies, momentum, turning, dt)
        was, before = spatial_top(body_qd[i]), spatial_bottom(body_qd[i])
        if bodies.inv_mass[i] > 0.0:
            kept = solve(matrix_in_world(bodies.q[i], bodies.inv_inertia[i]), before)
            before = in_world(turn[i] * bodies.q[i], bodies.inv_inertia[i], kept)
        more, turned = v - was, omega - before
        found[i] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2])
        gained[i] = spatial(more[0], more[1], more[2], turned[0], turned[1], turned[2])

    return gains, body_gains
