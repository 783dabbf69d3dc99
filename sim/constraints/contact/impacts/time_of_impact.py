"""When in a step a contact closes, and how fast it goes back: restitution at the time of impact.

Along C the predicted step is the parabola through C^-, the value as it begins, and C*, the predicted one, with the
acceleration a = (v* - v) / h between the velocities v before and v* = (C* - C^-) / h of the step:

    C(s) = C^- + s h v* - a h^2 s (1 - s) / 2          v_c = v* + a (s - 1/2) h         s = 0 ... 1

From the impact, at the root s, on it moves with -e v_c and the same acceleration.  So the end of the step is a smooth
function of when the impact was, and derivatives are those of the motion: where a velocity is only turned around at the
end of the step in which an impact falls, the time of impact is lost, and with it its derivative (Y. Hu et al.,
"DiffTaichi", ICLR 2020, section 4; Y. D. Zhong, J. Han, G. O. Brikis, "Differentiable Physics Simulations with
Contacts: Do They Have Correct Gradients w.r.t. Position, Velocity and Control?", L4DC 2023).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.core.lang.frontend.builtins import abs, max, min, sqrt
from sim.core.lang.frontend.function import func

LATER, LATEST = -1e30, 8.0
"""What is open and stays so, as it is predicted, others may push in: one impact follows the other there, and a step
knows the first alone.  What may rebound is let through, C >= LATER [m], and hits as it is found inside by the next
step, as long ago as it is deep: impacts that follow each other do so at their own times, up to LATEST steps late.  What
is pressed out at once gives nothing back: of five balls that met at e = 1 a quarter of the energy was left."""


@func
def time_of_impact(start, end, faster):
    """The root s in [-LATEST, 1] of C(s), see above; start = C^-, end = C*, faster = a h^2.

    Where it begins inside the impact was before the step, which came along a line: it is as deep as it came since then,
    at no less than forces make it in half a step.  If it goes out first, the impact is when it comes back.
    1 where it does not reach 0: then others push it in, and it closes at the end of the step.
    """
    s, curve = 0.0 * start, 0.5 * faster
    slope = end - start - curve
    square = slope * slope - 4.0 * curve * start
    if start <= 0.0:
        if slope > 0.0 and curve < 0.0 and square > 0.0:
            s = min(-(slope + sqrt(square)) / (2.0 * curve), s + 1.0)
        else:
            comes = max(curve - slope, abs(curve))  # slope - curve: of the step before
            if comes > 0.0:
                s = max(start / comes, s - LATEST)
            elif start < 0.0:
                s = s - LATEST
    else:
        if end < 0.0:
            root = sqrt(square)
            if slope < 0.0:
                s = 2.0 * start / (root - slope)
            else:  # it still rises at first
                s = -(slope + root) / (2.0 * curve)
        else:
            s = s + 1.0
    return s


@func
def known_since(s):
    """Of a time of impact, or half a step before this one if it was earlier: so far back the acceleration of this step
    leads to the mean velocity of the one before, and no further."""
    return max(s, -0.5 + 0.0 * s)


@func
def approach_of(start, end, rate, dt):
    """Of the predicted step of C, see above: its acceleration a, the root s, and how fast it approaches zero there.

    rate: dC/dt of the velocities before the step.
    """
    mean = (end - start) / dt
    a = (mean - rate) / dt
    s = time_of_impact(start, end, a * (dt * dt))
    return a, s, -(mean + a * (known_since(s) - 0.5) * dt)


@func
def rebound_of(u, faster, gain, s, e):
    """dC/dt after an impact at s; u: that of the predicted step, as it ends; faster: what forces have added to it;
    gain: what they add afterwards too, without those that turn on its way what is held.

    Where C is linear, u = v* and faster = a h: -e v_c + a (1/2 - s) h.  What turns has another gradient as it hits, see
    `hitting`; impulses act along that one, and do no work in all if e = 1 for the velocities u along it.
    """
    return -e * (u + (known_since(s) - 0.5) * faster) - (s - 0.5) * gain
