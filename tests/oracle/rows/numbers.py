"""Rows about numbers: functions of scalars, integers, operators as functions, casts, random numbers, noise.

A row is (name, "arguments -> result", expression[, low, high]): values of the arguments are drawn from that range.
A type that ends in `~` makes a row of float32 and one of float64; in `~~`, one of float16 as well.
"""

ONE_FLOAT = [
    (name, "x: float~ -> float~", f"wp.{name}(x)", low, high)
    for name, low, high in [
        ("sin", -4, 4),
        ("cos", -4, 4),
        ("tan", -1.4, 1.4),
        ("asin", -0.95, 0.95),
        ("acos", -0.95, 0.95),
        ("atan", -3, 3),
        ("sinh", -2, 2),
        ("cosh", -2, 2),
        ("tanh", -2, 2),
        ("exp", -3, 3),
        ("log", 0.1, 9),
        ("log2", 0.1, 9),
        ("log10", 0.1, 9),
        ("sqrt", 0.1, 9),
        ("cbrt", 0.1, 9),
        ("erf", -2, 2),
        ("erfc", -2, 2),
        ("erfinv", -0.9, 0.9),
        ("erfcinv", 0.1, 1.9),
        ("abs", -4, 4),
        ("sign", -4, 4),
        ("step", -4, 4),
        ("nonzero", -4, 4),
        ("degrees", -4, 4),
        ("radians", -200, 200),
        ("floor", -4, 4),
        ("ceil", -4, 4),
        ("round", -4, 4),
        ("rint", -4, 4),
        ("trunc", -4, 4),
        ("frac", -4, 4),
        ("neg", -4, 4),
        ("pos", -4, 4),
    ]
]
HALF = [
    (f"half_{name}", signature, expression, low, high)
    for name, signature, expression, low, high in [
        ("arithmetic", "x: float16, y: float16 -> float16", "x * y + x / y - y", 1, 3),
        ("sin", "x: float16 -> float16", "wp.sin(x)", -3, 3),
        ("exp", "x: float16 -> float16", "wp.exp(x)", -2, 2),
        ("compare", "x: float16, y: float16 -> bool", "x < y", -3, 3),
        ("vector", "x: vec3h, y: vec3h -> vec3h", "x + wp.float16(2.0) * y", -3, 3),
        ("dot", "x: vec3h, y: vec3h -> float16", "wp.dot(x, y)", -1, 1),
        ("cast", "x: float16 -> float32", "wp.float32(x) * 3.0", -3, 3),
        ("from_float", "x: float32 -> float16", "wp.float16(x)", -3, 3),
        ("matrix", "m: mat22h, x: vec2h -> vec2h", "m @ x", -1, 1),
        ("quaternion", "q: quath, x: vec3h -> vec3h", "wp.quat_rotate(q, x)", -1, 1),
    ]
]
FLOATS = [
    ("atan2", "y: float~, x: float~ -> float~", "wp.atan2(y, x)", 0.2, 3),
    ("pow", "x: float~, y: float~ -> float~", "wp.pow(x, y)", 0.2, 3),
    ("power_operator", "x: float32, y: float32 -> float32", "x ** y", 0.2, 3),
    ("mod", "x: float32, y: float32 -> float32", "wp.mod(x, y)", 0.5, 9),
    ("mod_of_negative", "x: float32 -> float32", "x % 3.0", -9, 9),
    ("floordiv", "x: float32, y: float32 -> float32", "wp.floordiv(x, y)", 0.5, 9),
    ("floordiv_operator", "x: float32 -> float32", "x // 2.5", -9, 9),
    ("copysign", "x: float32, y: float32 -> float32", "wp.copysign(x, y)", -2, 2),
    ("min", "x: float~, y: float~ -> float~", "wp.min(x, y)", -2, 2),
    ("max", "x: float~, y: float~ -> float~", "wp.max(x, y)", -2, 2),
    ("clamp", "x: float32 -> float32", "wp.clamp(x, -1.0, 1.0)", -2, 2),
    ("clamp_nan", "x: float32, y: float32 -> float32", "wp.clamp(wp.nan, x, y)", -2, 2),
    ("clamp_nan_bound", "x: float32, y: float32 -> float32", "wp.clamp(x, wp.nan, y)", -2, 2),
    ("lerp", "a: float~, b: float~, t: float~ -> float~", "wp.lerp(a, b, t)", -2, 2),
    ("smoothstep", "x: float32 -> float32", "wp.smoothstep(-1.0, 1.0, x)", -0.9, 0.9),
    ("where", "x: float32, y: float32 -> float32", "wp.where(x > y, x * x, y * 3.0)", -2, 2),
    ("ifexp", "x: float32, y: float32 -> float32", "x * y if x > 0.0 else y", -2, 2),
    ("add", "x: float32, y: float32 -> float32", "wp.add(x, y)", -2, 2),
    ("sub", "x: float32, y: float32 -> float32", "wp.sub(x, y)", -2, 2),
    ("mul", "x: float32, y: float32 -> float32", "wp.mul(x, y)", -2, 2),
    ("div", "x: float32, y: float32 -> float32", "wp.div(x, y)", 0.5, 2),
    ("isfinite", "x: float32 -> bool", "wp.isfinite(wp.log(x))", -2, 2),
    ("isnan", "x: float32 -> bool", "wp.isnan(wp.log(x))", -2, 2),
    ("isinf", "x: float32 -> bool", "wp.isinf(x / wp.float32(0.0))", 1, 2),
    ("constants", "x: float32 -> float32", "x * wp.pi + wp.e - wp.PHI * wp.half_pi + wp.ln2 * wp.LOG10E", -2, 2),
]
INTEGERS = [
    ("int_add_wraps", "a: int32 -> int32", "a * 65537 * 65537", -90000, 90000),
    ("int8_wraps", "a: int8, b: int8 -> int8", "a * b + a", -100, 100),
    ("uint8_wraps", "a: uint8, b: uint8 -> uint8", "a - b", 0, 200),
    ("int16_mul", "a: int16, b: int16 -> int16", "a * b", -30000, 30000),
    ("int64_mul", "a: int64, b: int64 -> int64", "a * b", -(2**33), 2**33),
    ("uint32_mul", "a: uint32, b: uint32 -> uint32", "a * b", 0, 2**31),
    ("uint64_shift", "a: uint64 -> uint64", "a << wp.uint64(7)", 0, 2**60),
    ("int_division", "a: int32, b: int32 -> int32", "a / b", 1, 90),
    ("int_division_of_negative", "a: int32 -> int32", "a / 7", -90, 90),
    ("int_floordiv", "a: int32 -> int32", "a // 7", 0, 90),
    ("int_floordiv_of_negative", "a: int32 -> int32", "a // 7", -90, -1),
    ("int_mod", "a: int32 -> int32", "a % 7", 0, 90),
    ("int_mod_of_negative", "a: int32 -> int32", "a % 7", -90, -1),
    ("int_mod_function", "a: int64, b: int64 -> int64", "wp.mod(a, b)", 1, 90),
    ("bit_and", "a: int32, b: int32 -> int32", "a & b", -(2**30), 2**30),
    ("bit_or", "a: int32, b: int32 -> int32", "wp.bit_or(a, b)", -(2**30), 2**30),
    ("bit_xor", "a: uint32, b: uint32 -> uint32", "a ^ b", 0, 2**31),
    ("invert", "a: int32 -> int32", "~a", -(2**30), 2**30),
    ("invert_function", "a: uint16 -> uint16", "wp.invert(a)", 0, 60000),
    ("lshift", "a: int32 -> int32", "wp.lshift(a, 3)", -99, 99),
    ("rshift", "a: int32 -> int32", "a >> 3", -9999, 9999),
    ("rshift_unsigned", "a: uint32 -> uint32", "wp.rshift(a, wp.uint32(3))", 0, 2**31),
    ("bit_count", "a: int32 -> int32", "wp.bit_count(a)", -(2**30), 2**30),
    ("int_abs", "a: int32 -> int32", "wp.abs(a)", -99, 99),
    ("int_sign", "a: int32 -> int32", "wp.sign(a)", -2, 2),
    ("int_min_max", "a: int64, b: int64 -> int64", "wp.min(a, b) * wp.int64(3) - wp.max(a, b)", -99, 99),
    ("int_clamp", "a: int32 -> int32", "wp.clamp(a, -9, 9)", -30, 30),
    ("not", "a: int32 -> bool", "not a", 0, 2),
    ("and_or", "a: int32, b: int32 -> bool", "(a > 0 and b > 0) or a == b", -2, 2),
    ("chained", "a: int32 -> bool", "-5 < a and a <= 5", -9, 9),
    ("to_int", "x: float32 -> int32", "int(x)", -9, 9),
    ("to_int64", "x: float64 -> int64", "wp.int64(x)", -(2**40), 2**40),
    ("to_uint8", "a: int32 -> uint8", "wp.uint8(a)", 0, 999),
    ("to_float", "a: int32 -> float32", "float(a) / 2.0", -99, 99),
    ("to_bool", "a: int32 -> bool", "bool(a)", 0, 2),
    ("cast_bits", "x: float32 -> int32", "wp.cast(x, wp.int32)", -9, 9),
    ("literal_suffix", "a: uint64 -> uint64", "a + wp.uint64(18446744073709551600)", 0, 99),
]
RANDOM = [
    ("rand_init", "a: int32 -> uint32", "wp.rand_init(a)", 0, 999),
    ("rand_init_offset", "a: int32, b: int32 -> uint32", "wp.rand_init(a, b)", 0, 999),
]
RANDOM_BODIES = [
    (f"random_{name}", f"a: int32 -> {kind}", f"state = wp.rand_init(17, a)\n    result = {expression}", 0, 999)
    for name, kind, expression in [
        ("i", "int32", "wp.randi(state)"),
        ("i_range", "int32", "wp.randi(state, -5, 100)"),
        ("u", "uint32", "wp.randu(state)"),
        ("u_range", "uint32", "wp.randu(state, wp.uint32(5), wp.uint32(100))"),
        ("f", "float32", "wp.randf(state)"),
        ("f_range", "float32", "wp.randf(state, -2.0, 3.0)"),
        ("n", "float32", "wp.randn(state)"),
        ("poisson", "uint32", "wp.poisson(state, 4.0)"),
        ("poisson_large", "uint32", "wp.poisson(state, 50.0)"),
        ("triangle", "vec2", "wp.sample_triangle(state)"),
        ("ring", "vec2", "wp.sample_unit_ring(state)"),
        ("disk", "vec2", "wp.sample_unit_disk(state)"),
        ("sphere_surface", "vec3", "wp.sample_unit_sphere_surface(state)"),
        ("sphere", "vec3", "wp.sample_unit_sphere(state)"),
        ("hemisphere_surface", "vec3", "wp.sample_unit_hemisphere_surface(state)"),
        ("hemisphere", "vec3", "wp.sample_unit_hemisphere(state)"),
        ("square", "vec2", "wp.sample_unit_square(state)"),
        ("cube", "vec3", "wp.sample_unit_cube(state)"),
    ]
]
NOISE = [
    (
        f"{name}_{n}",
        f"x: {kind} -> float32",
        f"state = wp.rand_init(5)\n    result = wp.{name}(state, x{more})",
        low,
        low + 6,
    )
    for name, kind, n, more, low in [
        ("noise", "float32", 1, "", -3),
        ("noise", "vec2", 2, "", -3),
        ("noise", "vec3", 3, "", -3),
        ("noise", "vec4", 4, "", -3),
        ("pnoise", "float32", 1, ", 3", 0),
        ("pnoise", "vec2", 2, ", 3, 4", 0),
        ("pnoise", "vec3", 3, ", 3, 4, 5", 0),
        ("pnoise", "vec4", 4, ", 3, 4, 5, 6", 0),
        ("pnoise", "float32", "below_zero", ", 3", -6),
    ]
] + [
    (
        f"curlnoise_{n}",
        f"x: {kind} -> {out}",
        f"state = wp.rand_init(5)\n    result = wp.curlnoise(state, x{more})",
        -3,
        3,
    )
    for n, kind, out, more in [
        (2, "vec2", "vec2", ""),
        (3, "vec3", "vec3", ""),
    ]
]
# values alone: the arguments are integers
CURLS = [
    (
        "curlnoise_4",
        "a: vec4i -> vec3",
        "state = wp.rand_init(5)\n    result = wp.curlnoise(state, wp.vec4(a) * 0.37)",
        -9,
        9,
    ),
    (
        "curlnoise_octaves",
        "a: vec3i -> vec3",
        "state = wp.rand_init(5)\n    result = wp.curlnoise(state, wp.vec3(a) * 0.37, wp.uint32(3), 2.0, 0.5)",
        -9,
        9,
    ),
]
ROWS = [*ONE_FLOAT, *HALF, *FLOATS, *INTEGERS, *RANDOM, *RANDOM_BODIES, *NOISE, *CURLS]
