"""The loops of the range function: over the threads from one to another, as LLVM text."""

from __future__ import annotations

from collections.abc import Mapping

from sim.core.backends.base import LANES

# Eight threads at a time as long as there are eight; the loop over single threads does the rest.
WIDE_LOOP = f"""  %dummy = alloca [BYTES x i8], align 64
  call void @llvm.memset.p0.i64(ptr %dummy, i8 0, i64 BYTES, i1 false)
  %last = sub i64 %end, {LANES}
  %enough = icmp sle i64 %start, %last
  br i1 %enough, label %widely, label %singly
widely:
  %wide = phi i64 [ %start, %entry ], [ %wider, %widely ]
  call void @lanes(ARGUMENTS)
  %wider = add nsw i64 %wide, {LANES}
  %again8 = icmp sle i64 %wider, %last
  br i1 %again8, label %widely, label %singly
singly:
  %begin = phi i64 [ %start, %entry ], [ %wider, %widely ]"""

# The same in stages: with the body of eight goes what the next eight begin with, at the end once more that of the last.
STAGED_LOOP = f"""  %dummy = alloca [BYTES x i8], align 64
  call void @llvm.memset.p0.i64(ptr %dummy, i8 0, i64 BYTES, i1 false)
  %between = alloca [TWICE x i8], align 64
  %last = sub i64 %end, {LANES}
  %enough = icmp sle i64 %start, %last
  br i1 %enough, label %begun, label %singly
begun:
  call void @begin(ARGUMENTS, i64 %start, ptr %dummy, ptr %between)
  br label %widely
widely:
  %wide = phi i64 [ %start, %begun ], [ %wider, %widely ]
  %side = phi i64 [ 0, %begun ], [ %other, %widely ]
  %other = sub i64 SIDE, %side
  %taken = getelementptr inbounds i8, ptr %between, i64 %side
  %given = getelementptr inbounds i8, ptr %between, i64 %other
  %wider = add nsw i64 %wide, {LANES}
  %again8 = icmp sle i64 %wider, %last
  %ahead = select i1 %again8, i64 %wider, i64 %wide
  call void @lanes(ARGUMENTS, i64 %wide, ptr %dummy, i64 %ahead, ptr %taken, ptr %given)
  br i1 %again8, label %widely, label %singly
singly:
  %begin = phi i64 [ %start, %entry ], [ %wider, %widely ]"""

# The same where the eight may be left to single threads, or to the body with masked lanes: then it goes on behind them.
WIDE_LOOP_AND_BACK = f"""  %dummy = alloca [BYTES x i8], align 64
  call void @llvm.memset.p0.i64(ptr %dummy, i8 0, i64 BYTES, i1 false)
  %last = sub i64 %end, {LANES}
  br label %check
check:
  %from = phi i64 [ %start, %entry ], [ %to, %goon ]
  %enough = icmp sle i64 %from, %last
  br i1 %enough, label %widely, label %singly
widely:
  %wide = phi i64 [ %from, %check ], [ %wider, %done ]
  %kept = call i1 @lanes(ARGUMENTS)
  br i1 %kept, label %done, label %singly, !prof !3
done:
  %wider = add nsw i64 %wide, {LANES}
  %again8 = icmp sle i64 %wider, %last
  br i1 %again8, label %widely, label %singly
singly:
  %begin = phi i64 [ %from, %check ], [ %wide, %widely ], [ %wider, %done ]
  %of8 = add nsw i64 %begin, {LANES}
  %near = icmp slt i64 %of8, %end
  %to = select i1 %near, i64 %of8, i64 %end"""

AND_BACK = """goon:
  %further = icmp slt i64 %to, %end
  br i1 %further, label %check, label %exit"""

# What remains, where single threads have no body of their own.
MASKED_REST = """  %left = sub nsw i64 END, %begin
  %rest = icmp sgt i64 %left, 0
  br i1 %rest, label %masked, label %exit
masked:
  call void @some(ARGUMENTS)
  br label %AFTER"""


def range_loop(dims: int, formal: str, end: str, after: str, apart: Mapping[int, int]) -> str:
    """The loop over the linear range; with several dimensions one loop per row of the last, the others carried.

    end: where it ends (with several dimensions `%end`); after: the block behind it; apart: axis -> how many threads at
    its beginning are done by `@first`.
    """
    last = dims - 1
    if dims == 1:
        called, lines, start = formal.replace("i64 %c0", "i64 %linear"), ["first:"], ("%begin", "first")
        if apart:
            lines += [*_cut("%begin", apart[0], end, []), *_first_threads("%linear", "%begin", "first", [], called)]
            lines += [*_rest(end, after)]
            start = ("%cut", "begun")
        lines += [
            "  br label %loop",
            "loop:",
            f"  %linear = phi i64 [ {start[0]}, %{start[1]} ], [ %next, %loop ]",
            f"  call void @body({called})",
            "  %next = add nsw i64 %linear, 1",
            f"  %more = icmp slt i64 %next, {end}",
            f"  br i1 %more, label %loop, label %{after}, !llvm.loop !1",
        ]
        return "\n".join(lines)
    lines = ["first:", f"  %q{last} = add i64 %begin, 0"]
    for axis in range(last, 0, -1):
        lines.append(f"  %f{axis} = srem i64 %q{axis}, %d{axis}")
        lines.append(f"  %q{axis - 1} = sdiv i64 %q{axis}, %d{axis}")
    lines += ["  %f0 = add i64 %q0, 0", "  br label %row", "row:"]
    lines.append("  %at = phi i64 [ %begin, %first ], [ %stop, %carry ]")
    for axis in range(last):
        lines.append(f"  %c{axis} = phi i64 [ %f{axis}, %first ], [ %g{axis}, %carry ]")
    lines.append(f"  %from = phi i64 [ %f{last}, %first ], [ 0, %carry ]")
    lines += [
        f"  %left = sub nsw i64 %d{last}, %from",
        "  %full = add nsw i64 %at, %left",
        "  %short = icmp slt i64 %full, %end",
        "  %stop = select i1 %short, i64 %full, i64 %end",
        "  %base = sub nsw i64 %at, %from",
        "  %to = sub nsw i64 %stop, %base",
    ]
    start, linear = ("%from", "row"), f"  %linear = add nsw i64 %base, %c{last}"
    if apart:
        others = [(f"%c{axis}", n) for axis, n in apart.items() if axis < last]
        lines += [
            *_cut("%from", apart.get(last, 0), "%to", others),
            *_first_threads(f"%c{last}", "%from", "row", [linear], formal),
            *_rest("%to", "carry"),
        ]
        start = ("%cut", "begun")
    lines += [
        "  br label %loop",
        "loop:",
        f"  %c{last} = phi i64 [ {start[0]}, %{start[1]} ], [ %next, %loop ]",
        linear,
        f"  call void @body({formal})",
        f"  %next = add nsw i64 %c{last}, 1",
        "  %more = icmp slt i64 %next, %to",
        "  br i1 %more, label %loop, label %carry, !llvm.loop !1",
        "carry:",
    ]
    one = "1"
    for axis in range(last - 1, -1, -1):
        lines.append(f"  %h{axis} = add nsw i64 %c{axis}, {one}")
        if axis == 0:
            lines.append("  %g0 = add i64 %h0, 0")
            break
        lines.append(f"  %w{axis} = icmp eq i64 %h{axis}, %d{axis}")
        lines.append(f"  %g{axis} = select i1 %w{axis}, i64 0, i64 %h{axis}")
        lines.append(f"  %o{axis} = zext i1 %w{axis} to i64")
        one = f"%o{axis}"
    lines += ["  %again = icmp slt i64 %stop, %end", "  br i1 %again, label %row, label %exit"]
    return "\n".join(lines)


def _cut(begin: str, count: int, end: str, others: list[tuple[str, int]]) -> list[str]:
    """`%cut`: where the first threads of a row end, `count` of them; others: (coordinate, its first ones)."""
    lines = [
        f"  %late = icmp sgt i64 {begin}, {count}",
        f"  %later = select i1 %late, i64 {begin}, i64 {count}",
        f"  %near = icmp slt i64 %later, {end}",
        f"  %cut.0 = select i1 %near, i64 %later, i64 {end}",
    ]
    for k, (coordinate, least) in enumerate(others):
        lines.append(f"  %inner.{k} = icmp sge i64 {coordinate}, {least}")
        lines.append(f"  %cut.{k + 1} = select i1 %inner.{k}, i64 %cut.{k}, i64 {end}")
    return [*lines, f"  %cut = add i64 %cut.{len(others)}, 0"]


def _first_threads(counter: str, begin: str, before: str, made: list[str], formal: str) -> list[str]:
    """The loop up to `%cut`; made: what is made of the counter."""
    names = {counter: f"{counter}.f", "%linear": "%linear.f"}

    def renamed(text: str) -> str:
        for old, new in names.items():
            text = text.replace(old, new)
        return text

    return [
        f"  %odd = icmp slt i64 {begin}, %cut",
        "  br i1 %odd, label %apart, label %rest",
        "apart:",
        f"  {names[counter]} = phi i64 [ {begin}, %{before} ], [ %following, %apart ]",
        *map(renamed, made),
        f"  call void @first({renamed(formal)})",
        f"  %following = add nsw i64 {names[counter]}, 1",
        "  %moreapart = icmp slt i64 %following, %cut",
        "  br i1 %moreapart, label %apart, label %rest",
    ]


def _rest(end: str, after: str) -> list[str]:
    """What follows the first threads: the others, if there are any."""
    return [
        "rest:",
        f"  %others = icmp slt i64 %cut, {end}",
        f"  br i1 %others, label %begun, label %{after}",
        "begun:",
    ]
