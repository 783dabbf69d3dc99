"""Decompositions of small matrices, with derivatives that stay finite at repeated values.

The derivative of singular vectors and eigenvectors has terms ct / (s_i - s_j).  Turning two vectors of equal value into
each other changes nothing, so the cotangent of every function that does not depend on that choice vanishes there, and
the term with it.  It is dropped where the values are closer than sqrt(eps) and the cotangent no larger than rounding;
otherwise the difference is kept away from zero.  So the first derivative is exact

* wherever the values differ (all higher ones too);
* at repeated values for functions of the values that treat them alike (det, sum s^2, energies of principal stretches)
  and for the rotation U V^T.

For Q f(d) Q^T or U f(s) V^T put together by the caller, the cotangents of Q and d at one choice of vectors do not
determine the derivative at repeated values (entries between equal values are missing).  Where a kernel multiplies
vectors with functions of the values, its adjoint and its forward mode therefore go on with values that are sqrt(eps)
apart: the derivative is right up to about sqrt(eps) (1e-8 in float64, 3e-4 in float32); what the kernel itself computes
is not touched.

Not known at repeated values, and an error when a derivative is asked for there (`degeneracy.py`), are: second
derivatives of functions of vectors or values; vectors and values that one kernel stores and another one may combine;
kernels whose adjoint has to repeat the launch bit for bit (loops over stored elements, lists filled by atomics).  Where
repeated values are the rule, as in a body at rest, use `polar3`: exact to every order.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import abs, atan2, copysign, cos, max, sin, sqrt, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.matrix import inverse, trace, transpose
from sim.core.lang.library.scalar import sign
from sim.core.lang.library.static import epsilon, matrix_type, scalar_type, vector_type
from sim.core.lang.library.vector import cross, diag, dot, normalize, skew


@func
def _size(m):
    """sum_ij |m_ij|."""
    total = scalar_type(m)(0)
    for i in range(len(m)):
        for j in range(len(m)):
            total += abs(m[i, j])
    return total


@func
def _over(ct, gap, scale, size):
    """ct / gap, or 0 where the gap closes (against `scale`) and ct is no more than the rounding of terms of `size`."""
    small = epsilon(gap)
    closed = abs(gap) <= small**0.5 * scale and abs(ct) <= 16.0 * small * size
    drop = closed or scale == 0.0
    smallest = copysign(small * scale, gap)
    open_gap = where(abs(gap) > small * scale, gap, smallest)
    ratio = ct / where(drop, 1.0, open_gap)
    return where(drop, 0.0, ratio)


@func
def _column(m, j):
    v = vector_type(m, len(m))()
    for i in range(len(m)):
        v[i] = m[i, j]
    return v


@func
def _from_columns(a, b, c):
    return matrix_type(a, 3, 3)(a[0], b[0], c[0], a[1], b[1], c[1], a[2], b[2], c[2])


@func
def _perpendicular(a):
    """A unit vector perpendicular to the unit vector a."""
    axis = type(a)(1.0, 0.0, 0.0)
    if abs(a[0]) > 0.6:
        axis = type(a)(0.0, 1.0, 0.0)
    return normalize(cross(a, axis))


@func
def _jacobi_angle(difference, product):
    """(cos, sin) of the smaller rotation with tan^2 + tan difference / product - 1 = 0 (Golub and Van Loan, 8.5.2)."""
    zeta = difference / (2.0 * product)
    tangent = sign(zeta) / (abs(zeta) + sqrt(1.0 + zeta * zeta))
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    return cosine, cosine * tangent


@func
def _orthogonalize(b, v, p, q):
    """Columns p and q of b made orthogonal by one rotation, which v gets too; and whether it was needed."""
    bp, bq = _column(b, p), _column(b, q)
    alpha, beta, gamma = dot(bp, bp), dot(bq, bq), dot(bp, bq)
    needed = abs(gamma) > 4.0 * epsilon(gamma) * sqrt(alpha * beta)
    if needed:
        c, s = _jacobi_angle(beta - alpha, gamma)
        for i in range(3):
            x, y = b[i, p], b[i, q]
            b[i, p] = c * x - s * y
            b[i, q] = s * x + c * y
            x, y = v[i, p], v[i, q]
            v[i, p] = c * x - s * y
            v[i, q] = s * x + c * y
    return b, v, needed


@func
def _order(b, v, p, q):
    """Swap columns p and q if q is longer; one changes its sign, so that v stays a rotation."""
    bp, bq = _column(b, p), _column(b, q)
    if dot(bp, bp) < dot(bq, bq):
        for i in range(3):
            b[i, p], b[i, q] = bq[i], -bp[i]
            x = v[i, p]
            v[i, p] = v[i, q]
            v[i, q] = -x
    return b, v


@export
def svd3(a):
    """(U, s, V) with a = U diag(s) V^T; U and V rotations, s_0 >= s_1 >= |s_2|, s_2 with the sign of det(a).

    One-sided Jacobi rotations until the columns of a V are orthogonal.  For the derivative see the head of this module.
    """
    largest = abs(a[0, 0])
    for i in range(3):
        for j in range(3):
            largest = max(largest, abs(a[i, j]))
    scale = where(largest > 0.0, largest, 1.0)
    b = a * (1.0 / scale)
    v = type(a)(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    sweep, turned = 0, True
    while turned and sweep < 12:
        b, v, first = _orthogonalize(b, v, 0, 1)
        b, v, second = _orthogonalize(b, v, 0, 2)
        b, v, third = _orthogonalize(b, v, 1, 2)
        turned = first or second or third
        sweep += 1
    b, v = _order(b, v, 0, 1)
    b, v = _order(b, v, 0, 2)
    b, v = _order(b, v, 1, 2)
    u = _frame(_column(b, 0), _column(b, 1), epsilon(scale) ** 2)
    s = vector_type(a, 3)()
    for j in range(3):
        s[j] = dot(_column(u, j), _column(b, j)) * scale
    return u, s, v


@func
def _frame(x, y, tiny):
    """The rotation with the directions of x and of the part of y perpendicular to it; below `tiny` they count as 0."""
    x_size = sqrt(dot(x, x))
    first = type(x)(1.0, 0.0, 0.0)
    if x_size > tiny:
        first = x / x_size
    y -= first * dot(first, y)
    y -= first * dot(first, y)  # twice is enough to be orthogonal to rounding
    y_size = sqrt(dot(y, y))
    second = type(x)(0.0, 0.0, 0.0)
    if y_size > tiny:
        second = y / y_size
    else:
        second = _perpendicular(first)
    return _from_columns(first, second, cross(first, second))


@func
def _svd_vjp(a, u, s, v, ct_u, ct_s, ct_v):
    """Cotangent of a, from U^T dA V = W_u S + dS - S W_v with antisymmetric W_u = U^T dU, W_v = V^T dV."""
    in_u, in_v = transpose(u) * ct_u, transpose(v) * ct_v
    size, scale = _size(in_u) + _size(in_v), abs(s[0])
    inner = type(a)()
    for i in range(len(s)):
        inner[i, i] = ct_s[i]
        for j in range(i + 1, len(s)):
            wu, wv = in_u[i, j] - in_u[j, i], in_v[i, j] - in_v[j, i]
            even = _over(0.5 * (wu + wv), s[j] - s[i], scale, size)
            odd = _over(0.5 * (wu - wv), s[j] + s[i], scale, size)
            inner[i, j] = even + odd
            inner[j, i] = even - odd
    return u * inner * transpose(v)


svd3.vjp(_svd_vjp)


@func
def _values_apart(s):
    """Values at least sqrt(eps) of the largest apart, in the same order: moved symmetrically, if any are closer."""
    n, one, zero = len(s), scalar_type(s)(1), scalar_type(s)(0)
    largest = abs(s[0])
    for i in range(1, n):
        largest = max(largest, abs(s[i]))
    gap = 1.01 * epsilon(largest) ** 0.5 * largest  # so that `_over` takes them for different in any case
    close = False
    for i in range(n):
        for j in range(i):
            close = close or abs(s[i] - s[j]) < gap
    moved = type(s)()
    for i in range(n):
        rank = -0.5 * scalar_type(s)(n - 1)
        for j in range(n):
            if j < i:
                rank += where(s[j] <= s[i], one, zero)
            elif j > i:
                rank += where(s[j] < s[i], one, zero)
        moved[i] = s[i] + where(close, gap * rank, 0.0)
    return moved


@func
def _svd_apart(u, s, v):
    """Opposite values are as bad as equal ones: the derivative has terms with s_i^2 - s_j^2."""
    sizes, moved = type(s)(), type(s)()
    for i in range(len(s)):
        sizes[i] = abs(s[i])
    sizes = _values_apart(sizes)
    for i in range(len(s)):
        moved[i] = where(s[i] < 0.0, -sizes[i], sizes[i])
    return u, moved, v


svd3.separated(_svd_apart)


@export
def svd2(a):
    """(U, s, V) with a = U diag(s) V^T; V a rotation, s_0 >= s_1 >= 0, det(U) with the sign of det(a).

    a = Rot(phi) diag(x, y) Rot(theta)^T in closed form (Blinn, Consider the Lowly 2x2 Matrix, 1996).
    """
    e, f = 0.5 * (a[0, 0] + a[1, 1]), 0.5 * (a[0, 0] - a[1, 1])
    g, h = 0.5 * (a[1, 0] + a[0, 1]), 0.5 * (a[1, 0] - a[0, 1])
    q, r = sqrt(e * e + h * h), sqrt(f * f + g * g)
    plus, minus = atan2(g, f), atan2(h, e)
    phi, theta = 0.5 * (plus + minus), 0.5 * (plus - minus)
    flip = sign(q - r)
    cu, su, cv, sv = cos(phi), sin(phi), cos(theta), sin(theta)
    return type(a)(cu, -su * flip, su, cu * flip), vector_type(a, 2)(q + r, abs(q - r)), type(a)(cv, -sv, sv, cv)


svd2.vjp(_svd_vjp)
svd2.separated(_svd_apart)


@export
def polar3(a):
    """(R, S) with a = R S: R the rotation U V^T nearest to a, S = R^T a the stretch (symmetric).

    The derivatives of every order are exact wherever R is unique (s_1 + s_2 > 0), at repeated singular values too.
    """
    r = _rotation(a)
    return r, transpose(r) * a


@func
def _rotation(a):
    u, s, v = svd3(a)
    return u * transpose(v)


@_rotation.vjp
def _rotation_vjp(a, r, ct):
    """From R^T dA - dA^T R = W S + S W = skew((tr(S) 1 - S) w), W = R^T dR = skew(w): needs no singular vectors."""
    s = transpose(r) * a
    stiffness = diag(type(s[0])(trace(s))) - s
    return r * skew(inverse(stiffness) * _axial(transpose(r) * ct))


@func
def _axial(m):
    """The vector v with <m, skew(w)> = v . w for all w."""
    return vector_type(m, 3)(m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])


@export
def qr3(a):
    """(Q, R) with a = Q R: Q a rotation, R upper triangular with r_00, r_11 >= 0 and r_22 with the sign of det(a).

    Gram-Schmidt, twice.  The derivative is exact where the first two columns are independent, whatever the third;
    elsewhere, where Q is not unique, it is finite.
    """
    x, y, z = _column(a, 0), _column(a, 1), _column(a, 2)
    first = _unit_or(x, type(x)(1.0, 0.0, 0.0), 0.0)
    rest = y - first * dot(first, y)
    rest -= first * dot(first, rest)
    second = _unit_or(rest, _perpendicular(first), 8.0 * epsilon(a) * sqrt(dot(y, y)))
    third = cross(first, second)
    zero = scalar_type(a)(0)
    r = type(a)(
        dot(first, x), dot(first, y), dot(first, z), zero, dot(second, y), dot(second, z), zero, zero, dot(third, z)
    )
    return _from_columns(first, second, third), r


@func
def _unit_or(x, other, tiny):
    """x / |x|, or `other` where |x| <= tiny; no derivative there."""
    if dot(x, x) > tiny * tiny:
        return normalize(x)
    return other


@export
def eig3(a):
    """(Q, d) with (a + a^T) / 2 = Q diag(d) Q^T: eigenvalues (not sorted) and eigenvectors, Q a rotation.

    Cyclic Jacobi rotations.  For the derivative see the head of this module; it is symmetric.
    """
    m = (a + transpose(a)) * 0.5
    q = type(a)(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    tiny = _size(m) * (0.125 * epsilon(m))
    sweep, turned = 0, True
    while turned and sweep < 12:
        m, q, first = _diagonalize(m, q, 0, 1, tiny)
        m, q, second = _diagonalize(m, q, 0, 2, tiny)
        m, q, third = _diagonalize(m, q, 1, 2, tiny)
        turned = first or second or third
        sweep += 1
    return q, vector_type(a, 3)(m[0, 0], m[1, 1], m[2, 2])


@func
def _diagonalize(m, q, i, j, tiny):
    """One rotation G, so that (G^T m G)_ij = 0, to m and q G, where |m_ij| > tiny; and whether it was needed."""
    needed = abs(m[i, j]) > tiny
    if needed:
        c, s = _jacobi_angle(m[j, j] - m[i, i], m[i, j])
        k = 3 - i - j
        change = s / c * m[i, j]
        m[i, i] -= change
        m[j, j] += change
        x, y = m[k, i], m[k, j]
        m[k, i] = c * x - s * y
        m[i, k] = c * x - s * y
        m[k, j] = s * x + c * y
        m[j, k] = s * x + c * y
        m[i, j] = 0.0
        m[j, i] = 0.0
        for r in range(3):
            x, y = q[r, i], q[r, j]
            q[r, i] = c * x - s * y
            q[r, j] = s * x + c * y
    return m, q, needed


@eig3.vjp
def _eig3_vjp(a, q, d, ct_q, ct_d):
    """Cotangent of a, from Q^T dA Q = W D - D W + dD with antisymmetric W = Q^T dQ."""
    in_q = transpose(q) * ct_q
    size, scale = _size(in_q), max(max(abs(d[0]), abs(d[1])), abs(d[2]))
    inner = type(a)()
    for i in range(3):
        inner[i, i] = ct_d[i]
        for j in range(i + 1, 3):
            turn = _over(0.5 * (in_q[i, j] - in_q[j, i]), d[j] - d[i], scale, size)
            inner[i, j] = turn
            inner[j, i] = turn
    return q * inner * transpose(q)


@eig3.separated
def _eig3_apart(q, d):
    return q, _values_apart(d)
