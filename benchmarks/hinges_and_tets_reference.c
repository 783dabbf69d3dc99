/* XPBD steps of hinges and of neo-Hookean tetrahedra in plain C, forward and backward: what the generated code is
 * compared with.
 *
 * `Cloth` and the beginning and the end of a step are those of cloth_reference.c; the constraints have four points each.
 * The adjoints are written by hand.  Of each constraint the way forward keeps points 1 to 3 from point 0: 9 numbers.
 * values: of a hinge its rest angle and its softness; of a tetrahedron g1, g2, g3, mu / lambda', and two softnesses.
 */
#include "cloth_reference.c"

#include <tgmath.h> /* atan2, log and sqrt in the precision of their arguments */

static real dot(const real *a, const real *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void minus(const real *a, const real *b, real *out) {
    for (int i = 0; i < 3; i++) out[i] = a[i] - b[i];
}

static void cross(const real *a, const real *b, real *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* Wings 0 and 1, edge from 2 to 3. */
static void project_hinge(const Cloth *c, const int *p, const real *value, real *restrict q) {
    real *x[4], w[4];
    for (int i = 0; i < 4; i++) x[i] = q + 3 * (long)p[i], w[i] = c->inverse_mass[p[i]];
    real e[3], a[3], b[3], n0[3], n1[3], both[3], u[4][3];
    minus(x[2], x[0], a), minus(x[3], x[0], b), cross(a, b, n0);
    minus(x[3], x[1], a), minus(x[2], x[1], b), cross(a, b, n1);
    minus(x[3], x[2], e), cross(n0, n1, both);
    const real size = sqrt(dot(e, e));
    const real angle = atan2(dot(both, e) / size, dot(n0, n1)) - value[0];
    const real s0 = 1 / dot(n0, n0), s1 = 1 / dot(n1, n1);
    minus(x[0], x[3], a), minus(x[1], x[3], b);
    const real a2 = dot(a, e) / size * s0, b2 = dot(b, e) / size * s1;
    minus(x[0], x[2], a), minus(x[1], x[2], b);
    const real a3 = dot(a, e) / size * s0, b3 = dot(b, e) / size * s1;
    for (int i = 0; i < 3; i++) {
        u[0][i] = size * s0 * n0[i];
        u[1][i] = size * s1 * n1[i];
        u[2][i] = a2 * n0[i] + b2 * n1[i];
        u[3][i] = -a3 * n0[i] - b3 * n1[i];
    }
    real total = value[1];
    for (int k = 0; k < 4; k++) total += w[k] * dot(u[k], u[k]);
    const real lambda = angle / total; /* u is minus the gradient of the angle */
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 3; i++) x[k][i] += w[k] * lambda * u[k][i];
}

/* C_D and C_H of a stable neo-Hookean solid, as one block; d = 1 / 10. */
static void project_tetrahedron(const Cloth *c, const int *p, const real *value, real *restrict q) {
    const real d = (real)0.1, *softness = value + 10;
    real *x[4], w[4], edge[3][3], f[3][3], of_f[2][3][3], g[2][4][3], f0xf1[3];
    for (int i = 0; i < 4; i++) x[i] = q + 3 * (long)p[i], w[i] = c->inverse_mass[p[i]];
    for (int k = 0; k < 3; k++) minus(x[k + 1], x[0], edge[k]);
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++) f[j][i] = edge[0][i] * value[j] + edge[1][i] * value[3 + j] + edge[2][i] * value[6 + j];
    const real z = (dot(f[0], f[0]) + dot(f[1], f[1]) + dot(f[2], f[2])) / d;
    cross(f[0], f[1], f0xf1);
    const real stretch = sqrt(d * (z - log(1 + z))), change = dot(f[2], f0xf1) - 1 - value[9];
    const real rate = z / ((1 + z) * stretch);
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 3; i++) of_f[0][j][i] = rate * f[j][i];
        cross(f[(j + 1) % 3], f[(j + 2) % 3], of_f[1][j]);
    }
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 3; i++) {
            g[r][0][i] = 0;
            for (int k = 0; k < 3; k++) {
                const real *at = value + 3 * k;
                g[r][k + 1][i] = of_f[r][0][i] * at[0] + of_f[r][1][i] * at[1] + of_f[r][2][i] * at[2];
                g[r][0][i] -= g[r][k + 1][i];
            }
        }
    real aa = softness[0], ab = 0, bb = softness[1];
    for (int k = 0; k < 4; k++) {
        aa += w[k] * dot(g[0][k], g[0][k]);
        ab += w[k] * dot(g[0][k], g[1][k]);
        bb += w[k] * dot(g[1][k], g[1][k]);
    }
    const real under = 1 / (aa * bb - ab * ab);
    const real l0 = (ab * change - bb * stretch) * under, l1 = (ab * stretch - aa * change) * under;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 3; i++) x[k][i] += w[k] * (l0 * g[0][k][i] + l1 * g[1][k][i]);
}

static void add(real *out, real scale, const real *a) {
    for (int i = 0; i < 3; i++) out[i] += scale * a[i];
}

/* out += scale a x b */
static void add_cross(real *out, real scale, const real *a, const real *b) {
    real c[3];
    cross(a, b, c), add(out, scale, c);
}

/* The adjoint of `project_hinge`: q is the gradient by the positions, in place; by the softness it is added to gs. */
static void project_hinge_back(const Cloth *c, const int *p, const real *value, real *restrict q, const real *kept, real *gs) {
    real x[4][3] = {{0}}, *g[4], w[4], out[4][3] = {{0}};
    for (int i = 0; i < 4; i++) g[i] = q + 3 * (long)p[i], w[i] = c->inverse_mass[p[i]];
    memcpy(x[1], kept, 9 * sizeof(real));
    real e[3], a[3], b[3], f[3], h[3], n[2][3], both[3], u[4][3], gu[4][3], gn[2][3] = {{0}}, ge[3] = {0}, from[4][3];
    minus(x[2], x[0], a), minus(x[3], x[0], b), cross(a, b, n[0]);
    minus(x[3], x[1], f), minus(x[2], x[1], h), cross(f, h, n[1]);
    minus(x[3], x[2], e), cross(n[0], n[1], both);
    const real size = sqrt(dot(e, e)), over = 1 / size;
    const real angle = atan2(dot(both, e) * over, dot(n[0], n[1])) - value[0];
    const real s[2] = {1 / dot(n[0], n[0]), 1 / dot(n[1], n[1])};
    real along[4], share[4], gs_of[2], gsize = 0; /* wing 0 and 1 from end 3, then from end 2 */
    for (int k = 0; k < 4; k++) {
        minus(x[k % 2], x[k < 2 ? 3 : 2], from[k]);
        along[k] = dot(from[k], e), share[k] = along[k] * over * s[k % 2];
    }
    for (int i = 0; i < 3; i++) {
        u[0][i] = size * s[0] * n[0][i];
        u[1][i] = size * s[1] * n[1][i];
        u[2][i] = share[0] * n[0][i] + share[1] * n[1][i];
        u[3][i] = -share[2] * n[0][i] - share[3] * n[1][i];
    }
    real total = value[1], by_lambda = 0;
    for (int k = 0; k < 4; k++) total += w[k] * dot(u[k], u[k]), by_lambda += w[k] * dot(g[k], u[k]);
    const real under = 1 / total, lambda = angle * under, by_angle = by_lambda * under, by_total = -by_angle * lambda;
    *gs += by_total;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 3; i++) {
            gu[k][i] = w[k] * (lambda * g[k][i] + 2 * by_total * u[k][i]);
            out[k][i] = -by_angle * u[k][i];
        }
    for (int k = 0; k < 2; k++) {
        const real by = dot(gu[k], n[k]);
        add(gn[k], size * s[k], gu[k]), add(gn[k], share[k], gu[2]), add(gn[k], -share[k + 2], gu[3]);
        gsize += s[k] * by, gs_of[k] = size * by;
    }
    for (int k = 0; k < 4; k++) {
        const real by = k < 2 ? dot(gu[2], n[k]) : -dot(gu[3], n[k - 2]), by_along = by * over * s[k % 2];
        gsize -= by * share[k] * over, gs_of[k % 2] += by * along[k] * over;
        add(ge, by_along, from[k]), add(out[k % 2], by_along, e), add(out[k < 2 ? 3 : 2], -by_along, e);
    }
    for (int k = 0; k < 2; k++) add(gn[k], -2 * gs_of[k] * s[k] * s[k], n[k]);
    add(ge, gsize * over, e), add(out[3], 1, ge), add(out[2], -1, ge);
    real first[3], second[3];
    cross(b, gn[0], first), cross(gn[0], a, second);
    add(out[2], 1, first), add(out[3], 1, second), add(out[0], -1, first), add(out[0], -1, second);
    cross(h, gn[1], first), cross(gn[1], f, second);
    add(out[3], 1, first), add(out[2], 1, second), add(out[1], -1, first), add(out[1], -1, second);
    for (int k = 0; k < 4; k++) add(g[k], 1, out[k]);
}

/* The adjoint of `project_tetrahedron`, likewise; gs: by both softnesses. */
static void project_tetrahedron_back(const Cloth *c, const int *p, const real *value, real *restrict q, const real *kept, real *gs) {
    const real d = (real)0.1, *softness = value + 10;
    real *gx[4], w[4], edge[3][3], f[3][3], of_f[2][3][3], g[2][4][3], gg[2][4][3], gf[3][3];
    for (int i = 0; i < 4; i++) gx[i] = q + 3 * (long)p[i], w[i] = c->inverse_mass[p[i]];
    memcpy(edge, kept, sizeof(edge));
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++) f[j][i] = edge[0][i] * value[j] + edge[1][i] * value[3 + j] + edge[2][i] * value[6 + j];
    const real z = (dot(f[0], f[0]) + dot(f[1], f[1]) + dot(f[2], f[2])) / d;
    const real stretch = sqrt(d * (z - log(1 + z))), rate = z / ((1 + z) * stretch);
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 3; i++) of_f[0][j][i] = rate * f[j][i];
        cross(f[(j + 1) % 3], f[(j + 2) % 3], of_f[1][j]);
    }
    const real change = dot(f[2], of_f[1][2]) - 1 - value[9];
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 3; i++) {
            g[r][0][i] = 0;
            for (int k = 0; k < 3; k++) {
                const real *at = value + 3 * k;
                g[r][k + 1][i] = of_f[r][0][i] * at[0] + of_f[r][1][i] * at[1] + of_f[r][2][i] * at[2];
                g[r][0][i] -= g[r][k + 1][i];
            }
        }
    real aa = softness[0], ab = 0, bb = softness[1], by[2] = {0, 0};
    for (int k = 0; k < 4; k++) {
        aa += w[k] * dot(g[0][k], g[0][k]);
        ab += w[k] * dot(g[0][k], g[1][k]);
        bb += w[k] * dot(g[1][k], g[1][k]);
        for (int r = 0; r < 2; r++) by[r] += w[k] * dot(gx[k], g[r][k]);
    }
    const real under = 1 / (aa * bb - ab * ab);
    const real l[2] = {(ab * change - bb * stretch) * under, (ab * stretch - aa * change) * under};
    const real t[2] = {(bb * by[0] - ab * by[1]) * under, (aa * by[1] - ab * by[0]) * under};
    const real gaa = -t[0] * l[0], gbb = -t[1] * l[1], gab = -(t[0] * l[1] + t[1] * l[0]);
    gs[0] += gaa, gs[1] += gbb;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 3; i++) {
            gg[0][k][i] = w[k] * (l[0] * gx[k][i] + 2 * gaa * g[0][k][i] + gab * g[1][k][i]);
            gg[1][k][i] = w[k] * (l[1] * gx[k][i] + 2 * gbb * g[1][k][i] + gab * g[0][k][i]);
        }
    real back[2][3][3], by_rate = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 3; i++) {
                back[r][j][i] = 0;
                for (int k = 0; k < 3; k++) back[r][j][i] += value[3 * k + j] * (gg[r][k + 1][i] - gg[r][0][i]);
            }
    for (int j = 0; j < 3; j++) by_rate += dot(back[0][j], f[j]);
    const real slope = d * z / (2 * (1 + z) * stretch); /* of the stretch by z */
    const real of_rate = 1 / ((1 + z) * (1 + z) * stretch) - rate / stretch * slope;
    const real scale = -t[0] * rate + by_rate * of_rate * 2 / d;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++) gf[j][i] = scale * f[j][i] - t[1] * of_f[1][j][i] + rate * back[0][j][i];
    for (int j = 0; j < 3; j++) {
        add_cross(gf[(j + 1) % 3], 1, f[(j + 2) % 3], back[1][j]);
        add_cross(gf[(j + 2) % 3], 1, back[1][j], f[(j + 1) % 3]);
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            const real *at = value + 3 * k, more = at[0] * gf[0][i] + at[1] * gf[1][i] + at[2] * gf[2][i];
            gx[k + 1][i] += more;
            gx[0][i] -= more;
        }
}

/* Projects all constraints; keeps points 1 to 3 of each from its point 0 where there is a place for them. */
static void project_all(const Cloth *c, const real *values, long width, real *q, real *kept) {
    for (long k = 0; k < c->constraints; k++) {
        const int *p = c->points + 4 * k;
        if (kept)
            for (int i = 0; i < 3; i++) minus(q + 3 * (long)p[i + 1], q + 3 * (long)p[0], kept + 9 * k + 3 * i);
        if (width == 2)
            project_hinge(c, p, values + 2 * k, q);
        else
            project_tetrahedron(c, p, values + 12 * k, q);
    }
}

/* x, v: (particles, 3), start and end state; width: values of each constraint, 2 for hinges, 12 for tetrahedra.
 * Returns CPU seconds. */
double forward_of_four(const Cloth *c, const real *values, long width, real *x, real *v) {
    real *q = malloc(sizeof(real) * 3 * (size_t)c->particles);
    const double start = now();
    for (long s = 0; s < c->steps; s++) {
        predict(c, x, v, q);
        project_all(c, values, width, q, NULL);
        finish(c, x, v, q);
    }
    const double seconds = now() - start;
    free(q);
    return seconds;
}

/* Forward and backward, everything stored.  weights: gradient by the final positions; gv: by the initial velocities;
 * gs: by the softnesses, one of each hinge, two of each tetrahedron; kept: (steps, constraints, 9).
 * seconds: forward, backward. */
void gradient_of_four(const Cloth *c, const real *values, long width, real *x, real *v, const real *weights, real *gv, real *gs,
                      real *kept, double *seconds) {
    const long n = 3 * c->particles, per_step = 9 * c->constraints;
    real *q = malloc(sizeof(real) * 3 * (size_t)n), *g = q + n, *gx = g + n;
    const double start = now();
    for (long s = 0; s < c->steps; s++) {
        predict(c, x, v, q);
        project_all(c, values, width, q, kept + s * per_step);
        finish(c, x, v, q);
    }
    const double middle = now();
    memcpy(gx, weights, sizeof(real) * (size_t)n);
    memset(gv, 0, sizeof(real) * (size_t)n);
    memset(gs, 0, sizeof(real) * (size_t)((width == 2 ? 1 : 2) * c->constraints));
    for (long s = c->steps - 1; s >= 0; s--) {
        for (long i = 0; i < n; i++) {
            g[i] = gx[i] + gv[i] / c->dt;
            gx[i] = -gv[i] / c->dt;
        }
        for (long k = c->constraints - 1; k >= 0; k--) {
            const int *p = c->points + 4 * k;
            const real *from = kept + s * per_step + 9 * k;
            if (width == 2)
                project_hinge_back(c, p, values + 2 * k, g, from, gs + k);
            else
                project_tetrahedron_back(c, p, values + 12 * k, g, from, gs + 2 * k);
        }
        for (long i = 0; i < c->particles; i++) {
            const real moves = c->inverse_mass[i] > 0 ? c->dt : 0;
            for (int a = 0; a < 3; a++) {
                gx[3 * i + a] += g[3 * i + a];
                gv[3 * i + a] = moves * g[3 * i + a];
            }
        }
    }
    free(q);
    seconds[0] = middle - start;
    seconds[1] = now() - middle;
}
