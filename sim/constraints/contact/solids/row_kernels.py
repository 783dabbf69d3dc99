"""Kernels that look at contacts of solids one by one: what a step chooses of each, and whether it was come through."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import movers_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import atomic_max, static, tid
from sim.core.lang.frontend.function import Function
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, int32, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def mesh_struct(real: Scalar) -> Struct:
    """All closed surfaces of triangles of a model: `mesh_vertices` [m], `mesh_triangles` with those `beside` them, and
    `mesh_hinges`; which rows of these are those of each shape, `of_triangles` and `of_hinges`; and the corners of their
    boxes [m]."""
    vec3 = vector(3, real)
    places = {"vertices": array_type(vec3), "corners": array_type(vec3, 2)}
    numbers = ("triangles", "beside", "hinges", "of_triangles", "of_hinges")
    return Struct("meshes", {**places, **{name: array_type(int32, 2) for name in numbers}})


def make_choosing(c: Constraint, slots: Slots, real: Scalar, places: Function, chosen: Function) -> Kernel:
    """Of the constraints `tid()` what a step chooses: `chosen(a, b, k, data, meshes)` writes it to row k of `data`.

    places: `points_of` or `seen_points`: a, b are those where the step, x_ref of the particles, begins, and where it is
    predicted to end.
    """
    vec3, Quat, Meshes, layout = vector(3, real), quaternion(real), mesh_struct(real), particle_layout(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    movers, count = movers_of(slots), len(slots.particles)
    particle_type, position = layout.type(real), layout.position

    @kernel(name=f"choose_{c.name}_{slots.kinds}")
    def choose(
        points: array2d[int],
        placing: SlotData,
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        x_ref: array[vec3],
        meshes: Meshes,
        data: Data,
    ):
        k = tid()
        p_k, _, of_p, begun, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        placed = fields_at(placing, k)
        a = places([x_ref[p_k[p]] for p in static(range(count))], begun, placed)
        b = places([position(of_p[p]) for p in static(range(count))], poses, placed)
        chosen(a, b, k, data, meshes)

    choose.race_free = True  # rows are their own
    return choose


def make_passing(c: Constraint, slots: Slots, real: Scalar, places: Function, passed: Function) -> Kernel:
    """Of the constraints `tid()` those that `passed(a, b, k, data, meshes)` finds come through within a step, by the
    greatest number, from 1 on, in last[index].

    places: `points_of` or `seen_points`: a, b are those where the step, x_0 of the particles, begins, and ends, x_1.
    What has no normal where it is met (`sharp` in `data`) is told as well, behind the numbers of all.
    """
    vec3, Quat, Meshes = vector(3, real), quaternion(real), mesh_struct(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    movers, count, particle_type = movers_of(slots), len(slots.particles), particle_layout(real).type(real)
    may_be_sharp = "sharp" in c.parameters

    @kernel(name=f"passing_{c.name}_{slots.kinds}")
    def find(
        index: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        x_0: array[vec3],
        x_1: array[vec3],
        meshes: Meshes,
        last: array[int],
    ):
        k = tid()
        p_k, _, _, begun, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        placed = fields_at(placing, k)
        a = places([x_0[p_k[p]] for p in static(range(count))], begun, placed)
        b = places([x_1[p_k[p]] for p in static(range(count))], poses, placed)
        if passed(a, b, k, data, meshes):
            atomic_max(last, index, k + 1)
        if static(may_be_sharp):
            if data.sharp[k] > 0.5:
                atomic_max(last, index, points.shape[0] + k + 1)

    return find
