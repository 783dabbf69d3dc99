/* XPBD steps of hinges and of neo-Hookean tetrahedra in plain C, forward: what the generated code is compared with.
 *
 * `Cloth` and the beginning and the end of a step are those of cloth_reference.c; the constraints have four points each.
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

/* x, v: (particles, 3), start and end state; width: values of each constraint, 2 for hinges, 12 for tetrahedra.
 * Returns CPU seconds. */
double forward_of_four(const Cloth *c, const real *values, long width, real *x, real *v) {
    real *q = malloc(sizeof(real) * 3 * (size_t)c->particles);
    const double start = now();
    for (long s = 0; s < c->steps; s++) {
        predict(c, x, v, q);
        for (long k = 0; k < c->constraints; k++) {
            const int *p = c->points + 4 * k;
            if (width == 2)
                project_hinge(c, p, values + 2 * k, q);
            else
                project_tetrahedron(c, p, values + 12 * k, q);
        }
        finish(c, x, v, q);
    }
    const double seconds = now() - start;
    free(q);
    return seconds;
}
