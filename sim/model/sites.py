"""Sites: points of bodies that are observed.  To markers, losses and pictures they are points like particles.

The points of a model are its particles, then its sites.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from functools import cache

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.types import Scalar, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model


def point_positions(model: Model, particle_q: array, body_q: array) -> array:
    """Positions of all points, (points,) or (frames, points) vec3 [m], from those of particles and poses of bodies,
    with or without an axis of frames.  Differentiable; the particles themselves where there are no sites."""
    sites = model.site_body.size
    if not sites:
        return particle_q
    framed = particle_q.ndim == 2
    frames = particle_q.shape[0] if framed else 1
    grad = particle_q.requires_grad or body_q.requires_grad
    points = model.particle_count + sites
    out = empty((frames, points), vector(3, model.dtype), model.device, requires_grad=grad)
    inputs = [particle_q, body_q] if framed else [a.reshape((1, a.size)) for a in (particle_q, body_q)]
    where = [model.particle_count, model.site_body, model.site_at]
    launch(_observe(model.dtype), (frames, points), [*inputs, *where], [out])
    return out if framed else out.reshape(points)


@cache
def _observe(real: Scalar) -> Kernel:
    vec3, frame = vector(3, real), transformation(real)

    @kernel
    def observe(
        particle_q: array2d[vec3],
        body_q: array2d[frame],
        particles: int,
        site_body: array[int],
        site_at: array[vec3],
        out: array2d[vec3],
    ):
        f, i = tid()
        if i < particles:
            out[f, i] = particle_q[f, i]
        else:
            k = i - particles
            pose = body_q[f, site_body[k]]
            out[f, i] = pose.p + quat_rotate(pose.q, site_at[k])

    return observe
