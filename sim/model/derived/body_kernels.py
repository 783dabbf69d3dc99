"""The kernels that derive the data of rigid bodies, and of points on them, from material values; see `kernels`."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass
from functools import cache

from sim.core.lang.constants import nan, pi
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.matrix import determinant, inverse
from sim.core.lang.library.quaternion import quat_from_rotation_vector
from sim.core.lang.types import Scalar, matrix, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.derived.kernels import kernels


@dataclass(frozen=True)
class BodyKernels:
    """The kernels for one precision."""

    invert_mass: Kernel
    inertia: dict[int, Kernel]
    cylinder: Kernel
    invert_inertia: Kernel
    place_bodies: Kernel
    offset_from_com: Kernel
    joint_frame: Kernel


@cache
def body_derivations(real: Scalar) -> BodyKernels:
    """The kernels for float32 or float64."""
    vec3, row6, mat33 = vector(3, real), vector(6, real), matrix((3, 3), real)
    frame, spatial, Quat = transformation(real), vector(6, real), quaternion(real)

    @kernel
    def principal(value: array[vec3], source: array[int], target: array[int], out: array[mat33]):
        """The inertia of moments about the axes of the body."""
        k = tid()
        d = value[source[k]]
        out[target[k]] = mat33(d[0], 0.0, 0.0, 0.0, d[1], 0.0, 0.0, 0.0, d[2])

    @kernel
    def full(value: array[row6], source: array[int], target: array[int], out: array[mat33]):
        """The inertia of xx, yy, zz, xy, xz, yz."""
        k = tid()
        v = value[source[k]]
        out[target[k]] = mat33(v[0], v[3], v[4], v[3], v[1], v[5], v[4], v[5], v[2])

    @kernel
    def cylinder(
        density: array[real],
        of_density: array[int],
        radius: array[real],
        of_radius: array[int],
        length: array[real],
        target: array[int],
        mass: array[real],
        inertia: array[mat33],
    ):
        """Of cylinders along the first axis: m = rho pi r^2 l, m r^2 / 2 about it, m (3 r^2 + l^2) / 12 across."""
        k = tid()
        r, size = radius[of_radius[k]], length[k]
        m = density[of_density[k]] * real(pi) * r * r * size
        across = m * (3.0 * r * r + size * size) / 12.0
        mass[target[k]] = m
        inertia[target[k]] = mat33(0.5 * m * r * r, 0.0, 0.0, 0.0, across, 0.0, 0.0, 0.0, across)

    @kernel
    def invert_inertia(inertia: array[mat33], free: array[real], out: array[mat33]):
        """out[i] = inertia[i]^-1; zero for bodies that are held, no number where it is not positive definite."""
        i = tid()
        a = inertia[i]
        if free[i] > 0.0:
            if a[0, 0] > 0.0 and a[0, 0] * a[1, 1] > a[0, 1] * a[1, 0] and determinant(a) > 0.0:
                out[i] = inverse(a)
            else:
                out[i] = mat33(nan)
        else:
            out[i] = mat33()

    @kernel
    def place_bodies(
        base: array[frame],
        position: array[vec3],
        placed: array[int],
        rotation: array[vec3],
        rotated: array[int],
        velocity: array[vec3],
        moved: array[int],
        spin: array[vec3],
        turned: array[int],
        free: array[real],
        target: array[int],
        q: array[frame],
        qd: array[spatial],
    ):
        """q = (base.p + position, exp(rotation) base.q), qd = free (velocity, spin)."""
        k = tid()
        i = target[k]
        turn = quat_from_rotation_vector(rotation[rotated[k]]) * base[k].q
        q[i] = frame(base[k].p + position[placed[k]], turn)
        v, omega = free[i] * velocity[moved[k]], free[i] * spin[turned[k]]
        qd[i] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2])

    @kernel
    def offset_from_com(
        value: array[vec3], source: array[int], body: array[int], com: array[vec3], target: array[int], out: array[vec3]
    ):
        """out[target[k]] = value[source[k]] - com[body[k]]."""
        k = tid()
        out[target[k]] = value[source[k]] - com[body[k]]

    @kernel
    def joint_frame(at: array[vec3], source: array[int], turn: array[Quat], target: array[int], out: array[frame]):
        """out[target[k]] = (at[source[k]], turn[k])."""
        k = tid()
        out[target[k]] = frame(at[source[k]], turn[k])

    return BodyKernels(
        kernels(real).invert,
        {3: principal, 6: full},
        cylinder,
        invert_inertia,
        place_bodies,
        offset_from_com,
        joint_frame,
    )
