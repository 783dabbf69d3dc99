/* XPBD cloth of distance constraints in plain C, forward and backward: what the generated code is compared with.
 *
 * Positions are packed triples, constraints come colour by colour, one projection per substep.  Written for a compiler that
 * may reorder floating-point arithmetic (-O3 -march=native -ffast-math); `real` is float or double.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef real
#define real float
#endif

typedef struct {
    long particles, constraints, colors, steps, segment; /* segment: substeps between checkpoints; >= steps: all is stored */
    const int *points;                                   /* (constraints, 2) */
    const long *offsets;                                 /* (colors + 1) */
    const real *rest, *softness, *inverse_mass;          /* softness: compliance / dt^2 */
    real dt, gravity[3];
} Cloth;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void predict(const Cloth *c, const real *restrict x, const real *restrict v, real *restrict q) {
    for (long i = 0; i < c->particles; i++) {
        const real moves = c->inverse_mass[i] > 0 ? 1 : 0;
        for (int a = 0; a < 3; a++) q[3 * i + a] = x[3 * i + a] + moves * c->dt * (v[3 * i + a] + c->dt * c->gravity[a]);
    }
}

static void finish(const Cloth *c, real *restrict x, real *restrict v, const real *restrict q) {
    const real rate = 1 / c->dt;
    for (long i = 0; i < 3 * c->particles; i++) {
        v[i] = (q[i] - x[i]) * rate;
        x[i] = q[i];
    }
}

/* Projects the constraints begin .. end - 1; keeps the differences of their points where there is a place for them. */
static void project(const Cloth *c, long begin, long end, real *restrict q, real *restrict kept) {
    for (long k = begin; k < end; k++) {
        const int i = c->points[2 * k], j = c->points[2 * k + 1];
        real *a = q + 3 * (long)i, *b = q + 3 * (long)j;
        const real dx = a[0] - b[0], dy = a[1] - b[1], dz = a[2] - b[2];
        if (kept) {
            kept[3 * k] = dx;
            kept[3 * k + 1] = dy;
            kept[3 * k + 2] = dz;
        }
        const real inverse = 1 / (real)sqrt(dx * dx + dy * dy + dz * dz);
        const real wi = c->inverse_mass[i], wj = c->inverse_mass[j];
        const real s = (1 - c->rest[k] * inverse) / (wi + wj + c->softness[k]);
        const real si = wi * s, sj = wj * s;
        a[0] -= si * dx;
        a[1] -= si * dy;
        a[2] -= si * dz;
        b[0] += sj * dx;
        b[1] += sj * dy;
        b[2] += sj * dz;
    }
}

/* The adjoint of `project`: g is the gradient by the positions, in place; by softness it is added to gs. */
static void project_back(const Cloth *c, long begin, long end, real *restrict g, const real *restrict kept, real *restrict gs) {
    for (long k = begin; k < end; k++) {
        const int i = c->points[2 * k], j = c->points[2 * k + 1];
        real *a = g + 3 * (long)i, *b = g + 3 * (long)j;
        const real dx = kept[3 * k], dy = kept[3 * k + 1], dz = kept[3 * k + 2];
        const real wi = c->inverse_mass[i], wj = c->inverse_mass[j];
        const real weight = 1 / (wi + wj + c->softness[k]), inverse = 1 / (real)sqrt(dx * dx + dy * dy + dz * dz);
        const real ratio = c->rest[k] * inverse, s = (1 - ratio) * weight;
        const real ux = wj * b[0] - wi * a[0], uy = wj * b[1] - wi * a[1], uz = wj * b[2] - wi * a[2];
        const real along = ux * dx + uy * dy + uz * dz, bend = along * weight * ratio * inverse * inverse;
        const real hx = s * ux + bend * dx, hy = s * uy + bend * dy, hz = s * uz + bend * dz;
        gs[k] -= s * weight * along;
        a[0] += hx;
        a[1] += hy;
        a[2] += hz;
        b[0] -= hx;
        b[1] -= hy;
        b[2] -= hz;
    }
}

static void step(const Cloth *c, real *x, real *v, real *q, real *kept) {
    predict(c, x, v, q);
    for (long k = 0; k < c->colors; k++) project(c, c->offsets[k], c->offsets[k + 1], q, kept);
    finish(c, x, v, q);
}

/* x, v: (particles, 3), start and end state.  Returns CPU seconds. */
double forward(const Cloth *c, real *x, real *v) {
    real *q = malloc(sizeof(real) * 3 * (size_t)c->particles);
    const double start = now();
    for (long s = 0; s < c->steps; s++) step(c, x, v, q, NULL);
    const double seconds = now() - start;
    free(q);
    return seconds;
}

/* Forward and backward.  weights: gradient by the final positions; gv: by the initial velocities; gs: by the softness.
 * room: memory of `room_bytes`, used again between calls.  seconds: forward, backward.
 */
void gradient(const Cloth *c, real *x, real *v, const real *weights, real *gv, real *gs, real *room, double *seconds) {
    const long n = 3 * c->particles, per_step = 3 * c->constraints;
    const long segment = c->segment < c->steps ? c->segment : c->steps, count = (c->steps + segment - 1) / segment;
    real *kept = room, *states = kept + segment * per_step, *q = states + count * 2 * n, *g = q + n, *gx = g + n;
    const double start = now();
    for (long s = 0; s < c->steps; s++) {
        if (s % segment == 0) {
            memcpy(states + s / segment * 2 * n, x, sizeof(real) * (size_t)n);
            memcpy(states + s / segment * 2 * n + n, v, sizeof(real) * (size_t)n);
        }
        step(c, x, v, q, s / segment == count - 1 ? kept + s % segment * per_step : NULL);
    }
    const double middle = now();
    memcpy(gx, weights, sizeof(real) * (size_t)n);
    memset(gv, 0, sizeof(real) * (size_t)n);
    memset(gs, 0, sizeof(real) * (size_t)c->constraints);
    real *y = malloc(sizeof(real) * 2 * (size_t)n);
    for (long part = count - 1; part >= 0; part--) {
        const long first = part * segment, last = first + segment < c->steps ? first + segment : c->steps;
        if (part < count - 1) {
            memcpy(y, states + part * 2 * n, sizeof(real) * 2 * (size_t)n);
            for (long s = first; s < last; s++) step(c, y, y + n, q, kept + (s - first) * per_step);
        }
        for (long s = last - 1; s >= first; s--) {
            for (long i = 0; i < n; i++) {
                g[i] = gx[i] + gv[i] / c->dt;
                gx[i] = -gv[i] / c->dt;
            }
            for (long k = c->colors - 1; k >= 0; k--) project_back(c, c->offsets[k], c->offsets[k + 1], g, kept + (s - first) * per_step, gs);
            for (long i = 0; i < c->particles; i++) {
                const real moves = c->inverse_mass[i] > 0 ? c->dt : 0;
                for (int a = 0; a < 3; a++) {
                    gx[3 * i + a] += g[3 * i + a];
                    gv[3 * i + a] = moves * g[3 * i + a];
                }
            }
        }
    }
    free(y);
    seconds[0] = middle - start;
    seconds[1] = now() - middle;
}

size_t room_bytes(const Cloth *c) {
    const long n = 3 * c->particles, segment = c->segment < c->steps ? c->segment : c->steps;
    return sizeof(real) * (size_t)(segment * 3 * c->constraints + (c->steps + segment - 1) / segment * 2 * n + 3 * n);
}
