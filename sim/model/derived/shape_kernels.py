"""The kernels that derive shapes, and the mass of bodies from their shapes, from material values; see `kernels`."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass
from functools import cache

from sim.core.lang.constants import pi
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.matrix import trace, transpose
from sim.core.lang.library.quaternion import quat_rotate, quat_to_matrix
from sim.core.lang.library.transform import transform_point
from sim.core.lang.library.vector import dot, normalize, outer
from sim.core.lang.types import Scalar, matrix, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

SCALED, ROUND, CAPPED = range(3)
"""Families of solids: scaled by factors along the axes (boxes, meshes), round about z, round with half a ball at each
end."""


@dataclass(frozen=True)
class ShapeKernels:
    """The kernels for one precision."""

    round_size: Kernel
    plane_frame: Kernel
    weigh: Kernel
    gather: Kernel
    corner: Kernel
    half: Kernel
    size: Kernel
    material: Kernel


@cache
def shape_derivations(real: Scalar) -> ShapeKernels:
    """The kernels for float32 or float64."""
    vec3, mat33, frame, Quat = vector(3, real), matrix((3, 3), real), transformation(real), quaternion(real)

    @kernel
    def round_size(
        radius: array[real],
        of_radius: array[int],
        height: array[real],
        of_height: array[int],
        target: array[int],
        out: array[vec3],
    ):
        """out[target[k]] = (radius, half height, 0)."""
        k = tid()
        out[target[k]] = vec3(radius[of_radius[k]], height[of_height[k]], 0.0)

    @kernel
    def plane_frame(
        point: array[vec3],
        of_point: array[int],
        normal: array[vec3],
        of_normal: array[int],
        target: array[int],
        out: array[frame],
    ):
        """The shortest turn from z to the normal; downward about x."""
        k = tid()
        n = normalize(normal[of_normal[k]])
        turn = Quat(1.0, 0.0, 0.0, 0.0)
        if n[2] > -0.999999:
            turn = normalize(Quat(-n[1], n[0], 0.0, 1.0 + n[2]))
        out[target[k]] = frame(point[of_point[k]], turn)

    @kernel
    def weigh(
        shape: array[int],
        family: array[int],
        volume: array[real],
        centre: array[vec3],
        second: array[mat33],
        amount: array[real],
        by_mass: array[int],
        scale: array[vec3],
        pose: array[frame],
        density: array[real],
        mass: array[real],
        com: array[vec3],
        inertia: array[mat33],
    ):
        """Mass and centre of shape[k] in the frame of its body, and inertia about the centre, by its axes.

        volume, centre, second: of a scaled solid, at a scale of one.  Integrals of x x^T: of a ball V r^2 / 5 along
        each axis, of its halves apart by 2 h one V (r^2 / 5 + 3 h r / 4 + h^2) along z; of a cylinder V r^2 / 4 across
        and V h^2 / 3 along.
        """
        k = tid()
        i = shape[k]
        s, c = scale[i], vec3()
        v, m = real(0.0), mat33()
        if family[k] == SCALED:
            factor = s[0] * s[1] * s[2]
            v = volume[k] * factor
            c = vec3(s[0] * centre[k][0], s[1] * centre[k][1], s[2] * centre[k][2])
            w = second[k]
            xy, xz, yz = factor * s[0] * s[1] * w[0, 1], factor * s[0] * s[2] * w[0, 2], factor * s[1] * s[2] * w[1, 2]
            xx, yy, zz = factor * s[0] * s[0] * w[0, 0], factor * s[1] * s[1] * w[1, 1], factor * s[2] * s[2] * w[2, 2]
            m = mat33(xx, xy, xz, xy, yy, yz, xz, yz, zz)
        else:
            r, h = s[0], s[1]
            middle, ends = 2.0 * real(pi) * r * r * h, real(0.0)
            if family[k] == CAPPED:
                ends = real(4.0 / 3.0 * pi) * r * r * r
            v = middle + ends
            across = middle * r * r / 4.0 + ends * r * r / 5.0
            along = middle * h * h / 3.0 + ends * (r * r / 5.0 + 0.75 * h * r + h * h)
            m = mat33(across, 0.0, 0.0, 0.0, across, 0.0, 0.0, 0.0, along)
        rho = amount[k]
        if by_mass[k] > 0:
            rho = amount[k] / v
        turn = quat_to_matrix(pose[i].q)
        m = turn * m * transpose(turn)
        t = rho * trace(m)
        density[i] = rho
        mass[k] = rho * v
        com[k] = pose[i].p + quat_rotate(pose[i].q, c)
        inertia[k] = mat33(t, 0.0, 0.0, 0.0, t, 0.0, 0.0, 0.0, t) - rho * m

    @func
    def about(m: real, d: vec3):
        """The inertia of a point of mass m at d."""
        square = dot(d, d)
        return m * (mat33(square, 0.0, 0.0, 0.0, square, 0.0, 0.0, 0.0, square) - outer(d, d))

    @kernel
    def gather(
        own_mass: array[real],
        own_com: array[vec3],
        own_inertia: array[mat33],
        first: array[int],
        mass: array[real],
        com: array[vec3],
        inertia: array[mat33],
        body_mass: array[real],
        body_com: array[vec3],
        body_inertia: array[mat33],
    ):
        """What body i has of its own, and shapes first[i] to first[i + 1]."""
        i = tid()
        total, c, about_c = own_mass[i], own_com[i], own_inertia[i]
        if first[i + 1] > first[i]:
            moment = total * c
            for k in range(first[i], first[i + 1]):
                total += mass[k]
                moment += mass[k] * com[k]
            c = moment / total
            about_c = mat33()
            if own_mass[i] > 0.0:
                about_c = own_inertia[i] + about(own_mass[i], own_com[i] - c)
            for k in range(first[i], first[i + 1]):
                about_c += inertia[k] + about(mass[k], com[k] - c)
        body_mass[i] = total
        body_com[i] = c
        body_inertia[i] = about_c

    @kernel
    def corner(
        shape: array[int],
        unit: array[vec3],
        along_z: int,
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        body: array[int],
        target: array[int],
        out: array[vec3],
    ):
        """A place in the frame of a shape, unit times its size: from the centre of mass of a body, or in the world."""
        k = tid()
        size = scale[shape[k]]
        across = size[1]
        if along_z == 1:  # round about z
            across = size[0]
        place = transform_point(
            transform[shape[k]], vec3(unit[k][0] * size[0], unit[k][1] * across, unit[k][2] * size[along_z])
        )
        if body[k] >= 0:
            place -= com[body[k]]
        out[target[k]] = place

    @kernel
    def half(shape: array[int], form: int, scale: array[vec3], target: array[int], out: array[vec3]):
        """Half sizes of a box; for form = 1 of the line of centres of a capsule along z, for 2 of the box around a
        cylinder."""
        k = tid()
        s = scale[shape[k]]
        if form == 1:
            s = vec3(0.0, 0.0, s[1])
        if form == 2:
            s = vec3(s[0], s[0], s[1])
        out[target[k]] = s

    @kernel
    def size(shape: array[int], column: int, scale: array[vec3], target: array[int], out: array[real]):
        k = tid()
        value = real(0.0)
        if shape[k] >= 0:
            value = scale[shape[k]][0]
            if column == 1:
                value = scale[shape[k]][1]
        out[target[k]] = value

    @kernel
    def material(shape: array[int], values: array[real], target: array[int], out: array[real]):
        k = tid()
        value = real(0.0)
        if shape[k] >= 0:
            value = values[shape[k]]
        out[target[k]] = value

    return ShapeKernels(round_size, plane_frame, weigh, gather, corner, half, size, material)
