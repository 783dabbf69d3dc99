"""Faces of meshes that signed distances have come into between vertices, which alone these meet: found as a step ends.

What is narrower than a triangle may come in beside its corners, and no contact would notice.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.boxes import middle
from sim.constraints.contact.solids.distance_patches import slope_of
from sim.constraints.contact.solids.distances import FUNCTIONS
from sim.constraints.slots.bodies import body_struct, seen_from
from sim.core.lang.frontend.builtins import atomic_max, max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.collision.near.extents import placed

DEEP = 0.1
"""How much deeper than its corners a face may be, in parts of its longest side: what is round by a quarter more than
that side comes as deep between them."""
BEYOND, ROUNDING = 0.3, 1e-4
"""Where the distance grows along the outward normal of a face, by so much, its middle has come through that; if it is
inside by more than the second, in parts of that side."""
PLACES, HALVINGS = 6, 10
"""Along each side of a triangle, from the deepest of which a place is looked for; how often at half the distance."""


@memoize
def make_face_watch(of_points: Constraint, real: Scalar) -> Kernel:
    """Of rows `tid()`, a signed distance, a mesh and a triangle: those that are deeper inside than corners say, by the
    greatest number, from 1 on."""
    distance, slope = FUNCTIONS[of_points], slope_of(FUNCTIONS[of_points])
    vec3, frame, Quat = vector(3, real), transformation(real), quaternion(real)
    Bodies = body_struct(real)

    @func
    def depth(p, q, r, s, t, scale):
        return distance(p + s * (q - p) + t * (r - p), scale)

    @func
    def deepest(p, q, r, scale):
        """The least distance of places of a triangle, as a search from the deepest of some finds it; and that place."""
        least, s, t, apart = real(1e30), real(0.0), real(0.0), real(1.0 / PLACES)
        for i in range(PLACES + 1):
            for j in range(PLACES + 1 - i):
                found = depth(p, q, r, real(i) * apart, real(j) * apart, scale)
                if found < least:
                    least, s, t = found, real(i) * apart, real(j) * apart
        for _ in range(HALVINGS):
            apart *= 0.5
            a, b = s, t
            for way in static(((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, -1.0), (-1.0, 1.0))):
                u, v = a + real(way[0]) * apart, b + real(way[1]) * apart
                if u >= 0.0 and v >= 0.0 and u + v <= 1.0:
                    found = depth(p, q, r, u, v, scale)
                    if found < least:
                        least, s, t = found, u, v
        return least, p + s * (q - p) + t * (r - p)

    @kernel(name=f"watch_{of_points.name}")
    def watch(
        index: int,
        rows: array2d[int],
        body: array[int],
        transform: array[frame],
        size: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        vertices: array[vec3],
        triangles: array2d[int],
        last: array[int],
    ):
        k = tid()
        i, m, face = rows[k, 0], rows[k, 1], triangles[rows[k, 2]]
        a, b = body[i], body[m]
        first, second = transform[i], transform[m]
        if a >= 0:
            first = placed(first, bodies.x[a] + dx[a], turn[a] * bodies.q[a], com[a])
        if b >= 0:
            second = placed(second, bodies.x[b] + dx[b], turn[b] * bodies.q[b], com[b])
        x, scale = seen_from(first, second), size[i]
        p, q, r = [x.p + quat_rotate(x.q, middle(vertices[face[j]], size[m])) for j in static(range(3))]
        center, longest = (p + q + r) / real(3.0), max(length(q - p), max(length(r - q), length(p - r)))
        if distance(center, scale) < longest:
            corners = min(distance(p, scale), min(distance(q, scale), distance(r, scale)))
            least, at = deepest(p, q, r, scale)
            below = min(corners, real(0.0)) - least
            beyond = dot(slope(at, scale), normalize(cross(q - p, r - p))) > static(BEYOND)
            if below > static(DEEP) * longest or (beyond and below > static(ROUNDING) * longest):
                atomic_max(last, index, k + 1)

    return watch
