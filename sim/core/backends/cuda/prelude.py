"""The helpers that every generated CUDA text begins with.

They stand in the text itself, not in a file that it includes: a compiled kernel is then identified by its text alone,
and NVRTC needs no include path.  Everything is `sim_...`, so that no name of a user's kernel can hide it.
"""

BLOCK = 256
"""Threads per block of every launch, promised to the compiler as well."""

PRELUDE = r"""
#define SIM_INLINE static __device__ __forceinline__
#define SIM_CONVERSION __device__ __forceinline__

// An array argument: address, extents, byte strides.  The layout is that of the host's argument block.
template <int D> struct sim_array { char *data; long long n[D]; long long s[D]; };

template <class T> SIM_INLINE T &sim_at(char *place) { return *reinterpret_cast<T *>(place); }

// Half precision: stored so, computed in single precision and rounded.
struct sim_half {
    unsigned short bits;
    sim_half() = default;
    SIM_CONVERSION explicit sim_half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    SIM_CONVERSION operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
};
SIM_INLINE sim_half sim_min(sim_half a, sim_half b) { return sim_half(fminf(a, b)); }
SIM_INLINE sim_half sim_max(sim_half a, sim_half b) { return sim_half(fmaxf(a, b)); }

// Integers: a division by zero gives 0, the smallest number divided by -1 wraps.
template <class T> SIM_INLINE T sim_div(T a, T b) {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
    return T(a / b);
}
template <class T> SIM_INLINE T sim_mod(T a, T b) {
    if (b == T(0) || (T(-1) < T(0) && b == T(-1))) return T(0);
    return T(a % b);
}
template <class T> SIM_INLINE T sim_min(T a, T b) { return b < a ? b : a; }
template <class T> SIM_INLINE T sim_max(T a, T b) { return a < b ? b : a; }
template <class T> SIM_INLINE T sim_abs(T a) { return a < T(0) ? T(0ull - (unsigned long long)a) : a; }
SIM_INLINE float sim_min(float a, float b) { return fminf(a, b); }
SIM_INLINE float sim_max(float a, float b) { return fmaxf(a, b); }
SIM_INLINE double sim_min(double a, double b) { return fmin(a, b); }
SIM_INLINE double sim_max(double a, double b) { return fmax(a, b); }

// Floats to integers truncate and saturate; a NaN becomes 0.  `above`: the first number that is too large.
template <class T, class F> SIM_INLINE T sim_to_int(F x, T low, T high, F above) {
    if (!(x == x)) return T(0);
    return x >= above ? high : x <= F(low) ? low : T(x);
}

// Reads, changes and writes one scalar as if alone; the old value.  One- and two-byte scalars by the word around them.
template <int SIZE> struct sim_word { typedef unsigned int type; };
template <> struct sim_word<8> { typedef unsigned long long type; };
template <class T, class HOW> SIM_INLINE T sim_update(char *place, T value, HOW how) {
    typedef typename sim_word<sizeof(T)>::type word;
    const unsigned shift = sizeof(T) < 4 ? 8u * (unsigned)((size_t)place & 3) : 0u;
    word *at = reinterpret_cast<word *>(sizeof(T) < 4 ? place - (shift >> 3) : place);
    word seen = *reinterpret_cast<volatile word *>(at);
    for (;;) {
        word part = seen >> shift;
        T old;
        memcpy(&old, &part, sizeof(T));
        const T changed = how(old, value);
        word wanted = 0;
        memcpy(&wanted, &changed, sizeof(T));
        if (sizeof(T) < 4) wanted = (seen & ~(word(sizeof(T) == 1 ? 0xFFu : 0xFFFFu) << shift)) | (wanted << shift);
        const word found = atomicCAS(at, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}
// The same value, as one that the compiler cannot recognise: `zeros` are zeros, but it does not know that.
template <class T> SIM_INLINE T sim_again(T value, unsigned zeros) {
    typename sim_word<sizeof(T)>::type bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits ^= zeros;
    memcpy(&value, &bits, sizeof(T));
    return value;
}
struct sim_adds { template <class T> __device__ T operator()(T a, T b) const { return T(a + b); } };
struct sim_smaller { template <class T> __device__ T operator()(T a, T b) const { return sim_min(a, b); } };
struct sim_larger { template <class T> __device__ T operator()(T a, T b) const { return sim_max(a, b); } };
struct sim_new { template <class T> __device__ T operator()(T, T b) const { return b; } };
struct sim_ands { template <class T> __device__ T operator()(T a, T b) const { return T(a & b); } };
struct sim_ors { template <class T> __device__ T operator()(T a, T b) const { return T(a | b); } };
struct sim_xors { template <class T> __device__ T operator()(T a, T b) const { return T(a ^ b); } };
template <class T> struct sim_new_if {
    T compared;
    __device__ T operator()(T a, T b) const { return a == compared ? b : a; }
};

template <class T> SIM_INLINE T sim_atomic_add(char *place, T value) { return sim_update(place, value, sim_adds()); }
SIM_INLINE float sim_atomic_add(char *place, float value) { return atomicAdd(reinterpret_cast<float *>(place), value); }
SIM_INLINE double sim_atomic_add(char *place, double value) {
    return atomicAdd(reinterpret_cast<double *>(place), value);
}
SIM_INLINE int sim_atomic_add(char *place, int value) { return atomicAdd(reinterpret_cast<int *>(place), value); }
SIM_INLINE unsigned sim_atomic_add(char *place, unsigned value) {
    return atomicAdd(reinterpret_cast<unsigned *>(place), value);
}
SIM_INLINE unsigned long long sim_atomic_add(char *place, unsigned long long value) {
    return atomicAdd(reinterpret_cast<unsigned long long *>(place), value);
}
SIM_INLINE long long sim_atomic_add(char *place, long long value) {
    return (long long)atomicAdd(reinterpret_cast<unsigned long long *>(place), (unsigned long long)value);
}

// place += value where all threads of a warp mean the same place: a full warp adds up first and touches memory once.
template <class T> SIM_INLINE void sim_add_shared(char *place, T value) {
    if (__activemask() == 0xFFFFFFFFu) {
        for (int step = 16; step; step >>= 1) value += __shfl_down_sync(0xFFFFFFFFu, value, step);
        if ((threadIdx.x & 31) == 0) sim_atomic_add(place, value);
    } else {
        sim_atomic_add(place, value);
    }
}

// place += value where many threads of a warp may mean the same place: those add up first, pair by pair, and one of
// them touches memory.
template <class T> SIM_INLINE void sim_add_grouped(char *place, T value) {
    const unsigned active = __activemask(), lane = threadIdx.x & 31u;
    const unsigned same = __match_any_sync(active, (unsigned long long)place);
    // lanes of the same place behind this one that still have a part of the sum
    unsigned above = same & (0xFFFFFFFEu << lane);
    unsigned rank = __popc(same & ((1u << lane) - 1u));
    while (__any_sync(active, above != 0)) {
        const unsigned next = __ffs(above);
        const T other = __shfl_sync(active, value, next ? next - 1 : lane);
        if (next) value += other;
        above &= __ballot_sync(active, !(rank & 1u));  // lanes of odd rank have given theirs
        rank >>= 1;
    }
    if (lane == __ffs(same) - 1) sim_atomic_add(place, value);
}

// The first failure of a launch fills the record; later ones find it taken.
static __device__ __noinline__ void sim_fail(
    long long *record, int kind, int site, long long thread, long long index, long long bound) {
    if (!record || atomicCAS(reinterpret_cast<unsigned long long *>(record), 0ull, 1ull)) return;
    record[1] = kind;
    record[2] = site;
    record[3] = thread;
    record[4] = index;
    record[5] = bound;
}

// What `print` shows is written to a log that the host formats: [0] entries, [1] words, [2] room in words, then the
// entries, each thread, site, number of values, values.  An entry that does not fit is counted and left out.
template <int N> SIM_INLINE void sim_print(
    long long *log, int site, long long thread, const long long (&values)[N], int count) {
    if (!log) return;
    const unsigned long long at =
        atomicAdd(reinterpret_cast<unsigned long long *>(log + 1), (unsigned long long)(3 + count));
    if ((long long)at + 3 + count > log[2]) return;
    long long *entry = log + 3 + at;
    entry[0] = thread;
    entry[1] = site;
    entry[2] = count;
    for (int k = 0; k < count; ++k) entry[3 + k] = values[k];
    atomicAdd(reinterpret_cast<unsigned long long *>(log), 1ull);
}
template <class T, class S> SIM_INLINE T sim_reinterpret(S value) {
    T result;
    memcpy(&result, &value, sizeof(T));
    return result;
}
template <class T> SIM_INLINE long long sim_bits(T value) {
    long long bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}
"""
