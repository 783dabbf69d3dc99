"""Branches and loops as functions of (n, x, y) that are plain Python, too: Python says what their result has to be."""

from __future__ import annotations

import inspect


def if_else(n, x, y):
    if x > y:
        z = x - y
    elif x < y:
        z = y - x
    else:
        z = 0.0
    return z


def early_returns(n, x, y):
    if n < 0:
        return x
    if n == 0:
        return y
    if x > y:
        x = x + 1.0
        if n > 2:
            return x * y
    else:
        y = y - 1.0
    return x + y


def nested_returns(n, x, y):
    if n > 1:
        if x > 0.0:
            return 1.0
        x = x + 3.0
    return x * y


def chain(n, x, y):
    return 1.0 if -1.0 < x <= y < 3.0 else 2.0


def logic(n, x, y):
    a = x > 0.0 and y > 0.0 or n > 3
    b = not (x > 0.0) and not a
    return (1.0 if a else 2.0) + (4.0 if b else 8.0)


def count(n, x, y):
    total = 0
    for i in range(n):
        total += i * i
    return total


def sum_weak(n, x, y):
    s = 0.0
    for _ in range(n):
        s = s * x + y
    return s


def weak_becomes_float(n, x, y):
    s = 0
    for _ in range(n):
        s = s + x
    return s + 0.0 * x


def weak_flag(n, x, y):
    found = False
    where = -1
    for i in range(n):
        if not found and i * 2 > 5:
            found = True
            where = i
    return where


def untouched_constant(n, x, y):
    scale = 2
    for _ in range(n):
        x = x * 0.5 + scale
    return x * scale


def depends_on_weak(n, x, y):
    k = 0
    s = 0.0
    for _ in range(n):
        if k > 2:
            s = s + x
        k += 1
    return s


def swap(n, x, y):
    a = 0.0
    b = 1.0
    for _ in range(n):
        a, b = b, a + b
    return a


def steps(n, x, y):
    s = 0
    for i in range(3, n, 2):
        s = s * 3 + i
    for i in range(n, -5, -3):
        s = s * 2 - i
    return s


def dynamic_step(n, x, y):
    s = 0
    for i in range(n, 2 * n + 1, n * n + 1):
        s = s * 3 + i
    for i in range(n, -n, -n if n > 0 else 1):
        s = s * 5 + i
    return s


def breaks(n, x, y):
    s = 0.0
    for i in range(n):
        if i == 4:
            break
        if i % 2 == 1:
            continue
        s += x
    return s + y


def return_in_loop(n, x, y):
    for i in range(n):
        x = x + y
        if i == 5:
            return x * 10.0
    return x


def return_in_nested_loop(n, x, y):
    for i in range(n):
        for j in range(i, n):
            x = x * 0.5 + y
            if j * i == 6:
                return x
            if x > 50.0:
                break
        y = y + 1.0
    return x + y


def while_simple(n, x, y):
    k = 0
    while k < n:
        x = x * 0.5
        k += 1
    return x + float(k)


def while_true(n, x, y):
    k = 0
    while True:
        k += 1
        if k > n:
            break
        if k == 3:
            continue
        x = x + float(k)
    return x


def while_return(n, x, y):
    k = 0
    while k < 100:
        k += 1
        if k > n:
            return float(k) + x
    return y


def collatz(n, x, y):
    k = n if n > 0 else 1
    steps = 0
    while k != 1:
        if k % 2 == 0:
            k = k // 2
        else:
            k = 3 * k + 1
        steps += 1
    return steps


def unrolled(n, x, y):
    s = 0.0
    for i in range(4):
        for a in (x, y, 2.0):
            s = s * 0.5 + a * i
    return s


def unrolled_break(n, x, y):
    s = 0.0
    for i in range(6):
        if i >= n:
            break
        if i == 2:
            continue
        s = s + x
        if s > 1.2:
            return s + y
    return s


def long_constant_loop(n, x, y):
    s = 0.0
    for i in range(40):
        if i > n:
            break
        s = s * 0.5 + x
    return s


def deep(n, x, y):
    s = 0.0
    for i in range(n):
        t = 0.0
        k = i
        while k > 0:
            if k % 3 == 0:
                t = t + x
            elif k % 3 == 1:
                k -= 1
                continue
            else:
                for j in range(k):
                    if j > 2:
                        break
                    t = t - y
            k -= 2
        s = s + t * 0.5
    return s


def temporaries(n, x, y):
    t = x
    for i in range(n):
        t = y * float(i)
        u = t + 1.0
        x = x * 0.5 + u
    return x


def integers(n, x, y):
    return (n // 3) * 100 + (-n // 4) * 10 + (n // -2) + (n & 5) + (n | 3) * (n ^ 6) + (n << 2) + (n >> 1) + ~n


def powers(n, x, y):
    return x**2 + y**3 - x**0 + (x + 3.0) ** -2 + float(n**2)


def assigned_in_both(n, x, y):
    if n > 1:
        a, b = x, 1.0
    else:
        a, b = y, 2.0
    return a * b


def tuples(n, x, y):
    p = (x, y)
    if n > 2:
        p = (y, x)
    for _ in range(n):
        p = (p[1], p[0] + 1.0)
    return p[0] - 2.0 * p[1]


def comprehension(n, x, y):
    return sum([k * x for k in range(4) if k != 2]) + min(x, y, 0.25) + max([x, y])


def both_return(n, x, y):
    if n > 2:
        return x
    else:
        return y


def loop_variable_reused(n, x, y):
    for i in range(3):
        x = x + i
    for i in range(n):
        x = x * 0.5 + float(i)
        for j in range(i):
            x = x + float(j)
        for j in range(2):
            x = x - j
    return x


def continue_everywhere(n, x, y):
    for i in range(n):
        if i % 2 == 0:
            if i % 3 == 0:
                continue
            x = x + 1.0
        else:
            y = y + 1.0
            if i > 4:
                continue
            y = y + 0.5
        x = x * 0.75
    return x + y


def condition_with_exit(n, x, y):
    k = 10
    while k > n and x < 100.0:
        x = x + 7.0
        k -= 1
        if k == 5:
            break
    return x + float(k)


def paths_that_return_assign_nothing(n, x, y):
    if n == 0:
        p = x
    elif n == 1:
        if x > 0.0:
            p = x * 2.0
        else:
            return -1.0
    elif n < 4:
        if y > 0.0:
            if x > -3.0:
                p = 5.0 * y
            else:
                return -2.0
        else:
            p = y
    else:
        return -3.0
    return p + y


def paths_that_leave_an_iteration_assign_nothing(n, x, y):
    total = 0.0
    for j in range(n):
        k = (n + j) % 4
        if k == 0:
            p = x
        elif k == 1:
            if x * float(j) > 0.5:
                p = x * 2.0
            else:
                continue
        elif k == 2:
            if y > 0.0 and j > 4:
                break
            p = y
        else:
            if n > 5:
                return total
            continue
        total = total + p * float(j + 1)
    for j in range(3):
        if j < n:
            if x > y:
                q = float(j) * x
            else:
                continue
        else:
            break
        total = total + q
    return total


PROGRAMS = [f for name, f in list(globals().items()) if inspect.isfunction(f) and f.__module__ == __name__]
"""All of this file."""
