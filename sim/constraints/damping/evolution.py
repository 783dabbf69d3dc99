"""The evolution laws of internal variables: what elements carry from step to step, as viscous strain."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import seen_points
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, leaves_of, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_evolution(c: Constraint, slots: Slots, real: Scalar, name: str) -> Kernel:
    """A kernel, one thread per constraint, that writes the internal variable `name` after a step of dt to `after`.

    x, v: positions and velocities of particles at the start of the step; bodies, body_qd: the same of bodies, as
    `BodyStep.start` has them; `data` holds the internal variables there.
    """
    vec3, Data, kind = vector(3, real), parameter_struct(c, real), c.parameters[name].type(real)
    SlotData, Bodies, spatial = slot_struct(c, slots, real), body_struct(real), vector(6, real)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    seen, anticipates = seen_points(c, slots, real), c.anticipates
    n_particles, n_bodies = len(particles), len(owners)
    sizes = {m: len(leaves_of(c.parameters[m].type(real))) for m in c.internal_variables}
    begin = sum(sizes[m] for m in c.internal_variables[: c.internal_variables.index(name)])
    width, alone = sizes[name], c.parameters[name].kind == "float"

    evolved = embed(lambda: c.evolved(real), f"evolution_of_{c.name}")

    @kernel(name=f"evolve_{slots.key(c).replace('@', '_')}_{name}")
    def evolve(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        x: array[vec3],
        v: array[vec3],
        bodies: Bodies,
        body_qd: array[spatial],
        dt: real,
        after: array[kind],
    ):
        k = tid()
        p_k, b_k = [points[k, j] for j in static(particles)], [points[k, j] for j in static(owners)]
        x_k, poses = [x[p] for p in p_k], [(bodies.x[b], bodies.q[b]) for b in b_k]
        placed = fields_at(placing, k)
        now = seen(x_k, poses, placed)
        if anticipates:
            x_k = [x_k[j] + dt * v[p_k[j]] for j in static(range(n_particles))]
            rates = [body_qd[b] for b in b_k]
            poses = [
                (poses[g][0] + dt * spatial_top(rates[g]), exponential(dt * spatial_bottom(rates[g])) * poses[g][1])
                for g in static(range(n_bodies))
            ]
            values = evolved(now, seen(x_k, poses, placed), fields_at(data, k), dt)
        else:
            values = evolved(now, fields_at(data, k), dt)
        if alone:
            after[k] = values[begin]
        else:
            evolved_to = kind()
            for i in static(range(width)):
                evolved_to[i] = values[begin + i]
            after[k] = evolved_to

    return evolve
