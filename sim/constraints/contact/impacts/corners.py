"""What comes to a shape and is no impact: it passes a corner, rolls over an edge, or leaves the face that it lay on."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kinematics.geometry import gap_of
from sim.constraints.contact.kinematics.hitting import there_of
from sim.constraints.slots.linearization import motions_of, points_of, row_functions, rows_of, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, min, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate, quat_rotate_inv
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar

PASSES = 0.5
"""What is in a shape at the end of a step without forces, over what it would be as it approaches: less is no impact,
half of that not at all."""

STEEP = 6.0
"""How far what passes a face goes straight on, over how far it turns away: up to 4 by a parabola that does not come in.
What comes by more is hit, though it may be turned out by the end of the step; from twice this on, all of it."""

NOISE, LIES = 1e-3, 0.05
"""In parts of how far what rests may be: what comes into a shape by less than the first does not, whatever the sign of
a rounding error says; and what begins a step nearer than the second lies on it: of what has no corners it passes
nothing, however what slides along it turns."""

CORNER = 0.5
"""Cosine of the angle between faces with a corner that something leaves at once."""


def _on_body(slots: Slots) -> list[int]:
    """Bodies that carry the point, where a frame sees one."""
    return [g for g, own in enumerate(slots.bodies) if 1 in own]


def has_corners(c: Constraint, slots: Slots) -> bool:
    """Whether a point of a particle or body meets faces of a frame, which end at corners."""
    return c.frames == (0,) and len(slots.particles) + len(_on_body(slots)) == 1


def _row_of_point(c: Constraint, slots: Slots) -> int:
    """Of the rows, that which moves beside the frame."""
    return 2 * _on_body(slots)[0] if has_corners(c, slots) and _on_body(slots) else 0


def facing(c: Constraint, slots: Slots) -> int:
    """A row of unit length along the normal; slots: with bodies, or of what has corners."""
    return _row_of_point(c, slots) if has_corners(c, slots) else len(slots.particles)


@memoize
def passing_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`passing(start, rate, n, x_1, x_0, poses, begun, v_0, placed, data, resting, dt)` in a kernel, see there."""
    cornered, there_at, gap = has_corners(c, slots), there_of(slots), gap_of(c, slots, real)
    faces_turn, points_at = cornered and any(0 in own for own in slots.bodies), points_of(c, slots, real)
    rows_at, along = rows_of(c, slots, real), facing(c, slots)

    @func
    def from_face(n, x_1, x_0, poses, begun, v_0, placed_k, dt):
        """How far a point comes from a face without forces; n: its normal as the step begins, which turns with it."""
        at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
        frame, place = points_at(x_0, begun, placed_k)
        frame_then, place_then = points_at(at, there, placed_k)
        then = quat_rotate(frame.q, quat_rotate_inv(frame_then.q, place_then - frame_then.p))
        return dot(n, then - (place - frame.p))

    @func
    def passing(start, rate, n, x_1, x_0, poses, begun, v_0, placed_k, data_k, resting, dt):
        """Whether what comes to a shape would not be in it at the end of a step without forces, but for how little
        rests, 0 ... 1, though it is seen to approach it: it passes a corner, as at the seam of two boxes, or what it is
        about to roll over: an edge beside a triangle, a place on a rim."""
        found, straight = real(0.0), start + dt * rate
        if static(faces_turn):
            if straight < 0.0:  # what rests on a face is not as deep as that would go straight on, and passes nothing
                straight = max(straight, start + from_face(n, x_1, x_0, poses, begun, v_0, placed_k, dt))
        if straight < 0.0:
            at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
            end, near = gap(at, there, placed_k, data_k), resting * dt
            found = min(max(PASSES - end / straight, real(0.0)) / (0.5 * PASSES), real(1.0))
            if found > 0.0:  # then it turns away, from the same face or to another
                _, G_1 = rows_at(at, there, placed_k, data_k)
                if dot(n, G_1[0][along]) > CORNER:
                    found *= min(max(2.0 + dt * rate / (STEEP * (end - straight)), real(0.0)), real(1.0))
            comes, least = -straight, static(NOISE) * near
            if static(not cornered):
                comes, least = start, static(LIES) * near
            if comes <= 0.0:
                found = real(0.0)
            elif comes < least:
                found *= comes / least
            least_in = near if cornered else real(0.0)  # what has no corners rolls over nothing that it comes into
            if end < -least_in:
                if end + least_in > -near:
                    found *= 1.0 + (end + least_in) / near
                else:  # near may be 0, without gravity
                    found = real(0.0)
        return found

    return passing


@memoize
def at_corner_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`at_corner(gap_1, x_1, x_0, poses, begun, p, b, of_p, moved, turns, moving, placed, data, dt)` in a kernel."""
    velocities, there_at, rows_at = velocities_of(slots), there_of(slots), rows_of(c, slots, real)
    motions, (_, _, product), point = motions_of(slots, real), row_functions(slots), _row_of_point(c, slots)

    @func
    def at_corner(gap_1, x_1, x_0, poses, begun, p_k, b_k, of_p, moved, turns, moving, placed_k, data_k, dt):
        """Of what rests on a face: is another face nearer at the end of the step, whether that is before a corner
        without forces; for what part of the step it is past one, 0 where it is not; and C as if there were none."""
        v_0 = velocities(p_k, b_k, moving.v, moving.body_qd)
        at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
        C_0, G_0 = rows_at(x_0, begun, placed_k, data_k)
        C_in, G_in = rows_at(at, there, placed_k, data_k)
        _, G_1 = rows_at(x_1, poses, placed_k, data_k)
        motion = motions(p_k, of_p, moving.x_ref, moved, turns)
        before, left, n = False, real(0.0), G_in[0][point]
        past, apart = C_in[0], product(G_in[0], v_0) * dt
        start = C_0[0] + product(G_0[0], motion)
        if past > 0.0 and apart > 0.0 and start < 0.0:  # also where the corner is round
            left = (1.0 + dot(G_0[0][point], n)) * past / apart
            if left >= 1.0 or past < 0.5 * left * left * -start:  # not, or it falls faster than the face goes back
                left = 0.0 * left
        if gap_1 < 0.0 and left == 0.0:
            before = dot(n, G_1[0][point]) < CORNER
        return before, left, start

    return at_corner
