"""The programs of the corpus that are loops; importing this completes `PROGRAMS`."""

import math

from tools.programs.corpus import PROGRAMS as PROGRAMS
from tools.programs.corpus import program


@program()
def unrolled(n, x, y):
    s = x
    for k in range(5):
        s = s * y + math.sin(s) * k
    return s


@program()
def unrolled_with_break(n, x, y):
    s = x
    for _ in range(3):
        if s > 1.0:
            break
        s = s * (1.0 + y * y) + 0.3
    return s


@program()
def dynamic_sum(n, x, y):
    s = 0.0
    for k in range(n):
        s += x * y + float(k)
    return s


@program(open_loop=True)
def dynamic_product(n, x, y):
    p = 1.0
    for _ in range(n):
        p *= x
    return p * y


@program(open_loop=True)
def above_the_unroll_limit(n, x, y):
    p = 1.0
    for _ in range(17):
        p *= 0.5 + x * y
    return p


@program(open_loop=True)
def two_carried(n, x, y):
    for _ in range(n):
        x, y = x + 0.1 * y, y - 0.1 * math.sin(x)
    return x * y


@program(open_loop=True)
def newton_root(n, x, y):
    z = 1.0
    for _ in range(n):
        z = 0.5 * (z + (1.0 + x * x) / z)
    return z * y


@program()
def weighted_mean(n, x, y):
    s = 0.0
    z = 0.001
    for k in range(n):
        w = math.exp(-y * float(k))
        s += w * (x + float(k))
        z += w
    return s / z


@program(open_loop=True)
def nested_dynamic(n, x, y):
    s = 0.0
    for i in range(n):
        t = x
        for j in range(i):
            t = t * y + 0.1 * float(j)
        s += t * t
    return s


@program(open_loop=True)
def running_maximum(n, x, y):
    best = -10.0
    for k in range(n):
        best = max(best, math.sin(x * float(k)) * y)
    return best


@program(open_loop=True)
def loop_with_break(n, x, y):
    for _ in range(n):
        x = x * y + 0.5
        if x > 0.6:
            break
    return x * x


@program(open_loop=True)
def loop_with_continue(n, x, y):
    s = x
    for k in range(n):
        if k % 3 == 1:
            continue
        s = s * y + math.cos(s)
    return s


@program(open_loop=True)
def loop_with_break_and_continue(n, x, y):
    s = x
    for k in range(n):
        if s * s < 0.01:
            continue
        s = s * 0.9 * y
        if k > 4:
            break
        s += x
    return s


@program(open_loop=True)
def while_counting(n, x, y):
    k = 0
    while k < n:
        x = math.sin(x) + y * x
        k += 1
    return x


@program(open_loop=True)
def while_by_value(n, x, y):
    k = 0
    while abs(x) > 0.05 and k < 50:
        x = x * 0.5 * math.cos(y * x)
        k += 1
    return x * float(k) + y


@program(open_loop=True)
def while_with_break(n, x, y):
    k = 0
    while True:
        x = x * y + 0.2
        k += 1
        if k > n or x > 2.0:
            break
    return x * x


@program(open_loop=True)
def return_in_a_loop(n, x, y):
    for k in range(n):
        x = x * (1.0 + y * 0.3)
        if x > 0.8:
            return x * float(k)
    return x * y


@program(open_loop=True)
def return_in_nested_loops(n, x, y):
    for i in range(n):
        for j in range(i):
            x = x * y + 0.3
            if x > 0.7:
                return x * x + float(j)
        y = y * 0.9
    return x


@program(open_loop=True)
def bounds_from_values(n, x, y):
    s = x
    for _ in range(int(abs(y) * 4.3) + 1):
        s = s * s * 0.5 + y
    return s


@program(open_loop=True)
def backwards_and_steps(n, x, y):
    for k in range(n, 0, -2):
        x = x * y + float(k)
    for k in range(1, n, 3):
        y = math.sin(y) * x * 0.1 + float(k)
    return x * 0.01 + y


@program(open_loop=True)
def swapping(n, x, y):
    a, b = x, y
    for _ in range(n):
        a, b = b, a * b + 0.5
    return a


@program(open_loop=True)
def conditional_update(n, x, y):
    s = x
    for _ in range(n):
        if s > y:
            s = s * 0.7
        else:
            s = s * s + 0.5
    return s


@program(open_loop=True)
def loop_in_a_branch_in_a_loop(n, x, y):
    s = x
    for i in range(n):
        if i % 2 == 0:
            for _ in range(3 + i):
                s = math.sin(s) * y + s * 0.5
        else:
            s = s * s * 0.3
    return s


@program(open_loop=True)
def break_out_of_the_inner_loop_only(n, x, y):
    s = x
    for i in range(n):
        k = 0
        while k < 6:
            s = s * y + 0.2
            if s > 0.5 + 0.1 * float(i):
                break
            k += 1
        s = s * 0.8
    return s


@program(open_loop=True)
def integer_state(n, x, y):
    m = n + 3
    while m != 1:
        if m % 2 == 0:
            m = m // 2
            x = x * y
        else:
            m = 3 * m + 1
            x = x + y * y
    return x


@program()
def dead_carried_value(n, x, y):
    t = x
    s = 0.0
    for _ in range(n):
        t = t * t * y
        s += x
    return s * x


@program(open_loop=True)
def used_after_and_inside(n, x, y):
    s = x
    total = 0.0
    for _ in range(n):
        s = math.sin(s * y)
        total += s * s
    return total * s + x


@program(open_loop=True, samples=[(n, 0.3, 1.2) for n in (3, 70, 130, 259)])
def long_loop(n, x, y):
    for _ in range(n):
        x = x + 0.01 * math.sin(x) * y
    return x


@program(open_loop=True, samples=[(n, 0.3, 1.2) for n in (3, 70, 130, 259)])
def long_while(n, x, y):
    k = 0
    while k < n:
        x, y = x + 0.01 * math.sin(x) * y, y - 0.01 * x
        k += 1
    return x * y


@program(open_loop=True, samples=[(n, 0.4, 0.9) for n in (2, 9, 23)])
def long_nested(n, x, y):
    for i in range(n):
        k = 0
        while k < i:
            x = x + 0.01 * x * y
            k += 1
        y = y - 0.01 * x
    return x * y
