"""The text of the native functions of the runtime, in LLVM's language (`native` says what they do)."""

from __future__ import annotations

import platform

_WALK = """
define internal void @run_row(ptr %row) nounwind alwaysinline {
  %f = load ptr, ptr %row
  %block.p = getelementptr inbounds i64, ptr %row, i64 1
  %block = load ptr, ptr %block.p
  %end.p = getelementptr inbounds i64, ptr %row, i64 2
  %end = load i64, ptr %end.p
  call void %f(ptr %block, i64 0, i64 %end)
  ret void
}

define void @walk(ptr %table, i64 %count) nounwind {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = getelementptr inbounds [4 x i64], ptr %table, i64 %k
  call void @run_row(ptr %row)
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @strands(ptr %block, i64 %begin, i64 %end) nounwind {
  %table = load ptr, ptr %block
  %offsets.p = getelementptr inbounds i64, ptr %block, i64 1
  %offsets = load ptr, ptr %offsets.p
  %first.s = lshr i64 %begin, 6
  %last.s = lshr i64 %end, 6
  %first.p = getelementptr inbounds i64, ptr %offsets, i64 %first.s
  %last.p = getelementptr inbounds i64, ptr %offsets, i64 %last.s
  %first = load i64, ptr %first.p
  %last = load i64, ptr %last.p
  %rows = getelementptr inbounds [4 x i64], ptr %table, i64 %first
  %count = sub nsw i64 %last, %first
  call void @walk(ptr %rows, i64 %count)
  ret void
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @copy(ptr %block, i64 %begin, i64 %end) nounwind {
  %to.0 = load ptr, ptr %block
  %from.p = getelementptr inbounds i64, ptr %block, i64 1
  %from.0 = load ptr, ptr %from.p
  %to = getelementptr inbounds i8, ptr %to.0, i64 %begin
  %from = getelementptr inbounds i8, ptr %from.0, i64 %begin
  %n = sub nsw i64 %end, %begin
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}

define void @copy_on(ptr %block, i64 %begin, i64 %end) nounwind {
  %to = load ptr, ptr %block
  %from.p = getelementptr inbounds i64, ptr %block, i64 1
  %from = load ptr, ptr %from.p
  %stride.p = getelementptr inbounds i64, ptr %block, i64 2
  %stride = load i64, ptr %stride.p
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %end, i1 false)
  %next = getelementptr inbounds i8, ptr %to, i64 %stride
  store ptr %next, ptr %block
  ret void
}

define void @again(ptr %block, i64 %begin, i64 %end) nounwind {
entry:
  %table = load ptr, ptr %block
  %count.p = getelementptr inbounds i64, ptr %block, i64 1
  %count = load i64, ptr %count.p
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ %begin, %entry ], [ %next, %loop ]
  call void @walk(ptr %table, i64 %count)
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @clear(ptr %block, i64 %begin, i64 %end) nounwind {
  %to.0 = load ptr, ptr %block
  %to = getelementptr inbounds i8, ptr %to.0, i64 %begin
  %n = sub nsw i64 %end, %begin
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %n, i1 false)
  ret void
}
"""

_GIVE = """
define void @NAME(ptr %block, i64 %begin, i64 %end) nounwind {
entry:
  %to = load ptr, ptr %block
  %from.p = getelementptr inbounds i64, ptr %block, i64 1
  %from = load ptr, ptr %from.p
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %a = getelementptr inbounds TYPE, ptr %to, i64 %k
  %b = getelementptr inbounds TYPE, ptr %from, i64 %k
  %x = load TYPE, ptr %a
  %y = load TYPE, ptr %b
  %sum = fadd TYPE %x, %y
  store TYPE %sum, ptr %a
  store TYPE 0.0, ptr %b
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

_RELOCATE = """
define void @relocate(ptr %block, i64 %begin, i64 %end) nounwind {
entry:
  %places = load ptr, ptr %block
  %shift.p = getelementptr inbounds i64, ptr %block, i64 1
  %shift = load ptr, ptr %shift.p
  %wanted.p = getelementptr inbounds i64, ptr %block, i64 2
  %wanted = load i64, ptr %wanted.p
  %now = load i64, ptr %shift
  %by = sub i64 %wanted, %now
  store i64 %wanted, ptr %shift
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %place.p = getelementptr inbounds ptr, ptr %places, i64 %k
  %place = load ptr, ptr %place.p
  %word = load i64, ptr %place
  %moved = add i64 %word, %by
  store i64 %moved, ptr %place
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

_POOL = """
; what a thread takes: the next part of its own share of the row, else of another's.  A word is (number of the row,
; parts, next part).
define internal i1 @claim(ptr %pool, i64 %me) nounwind {
entry:
  %threads = load i64, ptr %pool
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %k.next, %other ]
  %sum = add i64 %me, %k
  %over = icmp sge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %whose = select i1 %over, i64 %wrapped, i64 %sum
  %offset = mul i64 %whose, 16
  %at = add i64 %offset, WORDS
  %word.p = getelementptr inbounds i64, ptr %pool, i64 %at
  br label %try
try:
  %word = load atomic i64, ptr %word.p acquire, align 8
  %part = and i64 %word, 65535
  %high = lshr i64 %word, 16
  %parts = and i64 %high, 65535
  %free = icmp ult i64 %part, %parts
  br i1 %free, label %take, label %other
take:
  %following = add i64 %word, 1
  %pair = cmpxchg ptr %word.p, i64 %word, i64 %following acq_rel monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %run, label %try
run:
  %f.p = getelementptr inbounds i64, ptr %pool, i64 ROW_AT
  %f = load ptr, ptr %f.p
  %block.p = getelementptr inbounds i64, ptr %f.p, i64 1
  %block = load ptr, ptr %block.p
  %n.p = getelementptr inbounds i64, ptr %f.p, i64 2
  %n = load i64, ptr %n.p
  %sharers.p = getelementptr inbounds i64, ptr %f.p, i64 3
  %sharers = load i64, ptr %sharers.p
  %all = mul i64 %sharers, %parts
  %before = mul i64 %whose, %parts
  %this = add i64 %before, %part
  %next = add i64 %this, 1
  %begin.0 = mul i64 %n, %this
  %begin.1 = udiv i64 %begin.0, %all
  %begin = and i64 %begin.1, -64
  %end.0 = mul i64 %n, %next
  %end.1 = udiv i64 %end.0, %all
  %end.2 = and i64 %end.1, -64
  %last = icmp eq i64 %next, %all
  %end = select i1 %last, i64 %n, i64 %end.2
  call void %f(ptr %block, i64 %begin, i64 %end)
  %done.p = getelementptr inbounds i64, ptr %pool, i64 DONE
  %old = atomicrmw add ptr %done.p, i64 1 release
  ret i1 true
other:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %threads
  br i1 %more, label %look, label %none
none:
  ret i1 false
}

; helps until there has been nothing to do for a while; then the thread may sleep
define void @work(ptr %pool, i64 %me, i64 %patience) nounwind {
entry:
  %stop.p = getelementptr inbounds i64, ptr %pool, i64 STOP
  %active.p = getelementptr inbounds i64, ptr %pool, i64 ACTIVE
  %longer = mul i64 %patience, 64
  br label %loop
loop:
  %idle = phi i64 [ 0, %entry ], [ %idle.next, %again ]
  %stop = load atomic i64, ptr %stop.p monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %help
help:
  %busy = call i1 @claim(ptr %pool, i64 %me)
  br i1 %busy, label %again, label %nothing
nothing:
  %idle.more = add i64 %idle, 1
  %patient = icmp slt i64 %idle.more, %patience
  br i1 %patient, label %wait, label %look
look:
  %active = load atomic i64, ptr %active.p monotonic, align 8
  %inside = icmp ne i64 %active, 0
  %yet = icmp slt i64 %idle.more, %longer
  %stay = and i1 %inside, %yet
  br i1 %stay, label %give, label %leave
give:
  call void @step_aside(ptr %pool)
  br label %again
wait:
  PAUSE
  br label %again
again:
  %idle.next = phi i64 [ 0, %help ], [ %idle.more, %wait ], [ %idle.more, %give ]
  br label %loop
leave:
  ret void
}

define internal void @step_aside(ptr %pool) nounwind {
  %yield.p = getelementptr inbounds i64, ptr %pool, i64 YIELD
  %yield = load ptr, ptr %yield.p
  %none = icmp eq ptr %yield, null
  br i1 %none, label %leave, label %call
call:
  %ignored = call i32 %yield()
  br label %leave
leave:
  ret void
}

define void @walk_together(ptr %pool, ptr %table, i64 %count) nounwind {
entry:
  %threads = load i64, ptr %pool
  %active.p = getelementptr inbounds i64, ptr %pool, i64 ACTIVE
  %number.p = getelementptr inbounds i64, ptr %pool, i64 NUMBER
  %row.p = getelementptr inbounds i64, ptr %pool, i64 ROW_AT
  %block.p = getelementptr inbounds i64, ptr %row.p, i64 1
  %n.p = getelementptr inbounds i64, ptr %row.p, i64 2
  %sharers.p = getelementptr inbounds i64, ptr %row.p, i64 3
  %done.p = getelementptr inbounds i64, ptr %pool, i64 DONE
  store atomic i64 1, ptr %active.p monotonic, align 8
  %number.0 = load i64, ptr %number.p
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %rows, label %leave
rows:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %number = phi i64 [ %number.0, %entry ], [ %number.after, %next ]
  %row = getelementptr inbounds [4 x i64], ptr %table, i64 %k
  %f = load ptr, ptr %row
  %from.block = getelementptr inbounds i64, ptr %row, i64 1
  %block = load ptr, ptr %from.block
  %from.n = getelementptr inbounds i64, ptr %row, i64 2
  %n = load i64, ptr %from.n
  %from.grain = getelementptr inbounds i64, ptr %row, i64 3
  %grain = load i64, ptr %from.grain
  %splits = icmp sgt i64 %grain, 0
  %twice = shl i64 %grain, 1
  %enough = icmp sge i64 %n, %twice
  %share = and i1 %splits, %enough
  br i1 %share, label %publish, label %alone
alone:
  call void %f(ptr %block, i64 0, i64 %n)
  br label %next
publish:
  %worth = udiv i64 %n, %grain
  %sharers = call i64 @llvm.umin.i64(i64 %worth, i64 %threads)
  %each = mul i64 %grain, %sharers
  %fit = udiv i64 %n, %each
  %some = call i64 @llvm.umax.i64(i64 %fit, i64 1)
  %parts = call i64 @llvm.umin.i64(i64 %some, i64 MOST_PARTS)
  %all = mul i64 %parts, %sharers
  store ptr %f, ptr %row.p
  store ptr %block, ptr %block.p
  store i64 %n, ptr %n.p
  store i64 %sharers, ptr %sharers.p
  store atomic i64 0, ptr %done.p monotonic, align 8
  %number.more = add i64 %number, 1
  %tag = shl i64 %number.more, 32
  %limit = shl i64 %parts, 16
  %word = or i64 %tag, %limit
  br label %offer
offer:
  %t = phi i64 [ 0, %publish ], [ %t.next, %offer ]
  %offset = mul i64 %t, 16
  %at = add i64 %offset, WORDS
  %word.p = getelementptr inbounds i64, ptr %pool, i64 %at
  %shares = icmp slt i64 %t, %sharers
  %given = select i1 %shares, i64 %word, i64 %tag
  store atomic i64 %given, ptr %word.p release, align 8
  %t.next = add i64 %t, 1
  %others = icmp slt i64 %t.next, %threads
  br i1 %others, label %offer, label %take
take:
  %busy = call i1 @claim(ptr %pool, i64 0)
  br i1 %busy, label %take, label %finish
finish:
  %spins = phi i64 [ 0, %take ], [ %spins.next, %wait ], [ %spins.next, %give ]
  %done = load atomic i64, ptr %done.p acquire, align 8
  %complete = icmp uge i64 %done, %all
  br i1 %complete, label %next, label %pause
pause:
  %spins.next = add i64 %spins, 1
  %patient = icmp slt i64 %spins.next, 2000
  br i1 %patient, label %wait, label %give
wait:
  PAUSE
  br label %finish
give:
  call void @step_aside(ptr %pool)
  br label %finish
next:
  %number.after = phi i64 [ %number, %alone ], [ %number.more, %finish ]
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %rows, label %end
end:
  store i64 %number.after, ptr %number.p
  br label %leave
leave:
  store atomic i64 0, ptr %active.p monotonic, align 8
  ret void
}

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
"""

ACTIVE, YIELD, NUMBER, STOP = 1, 2, 3, 4
_ROW_AT, _DONE, WORDS = 16, 32, 48
PART = 64
"""Parts of a row begin at multiples of this."""
MOST_PARTS = 4
"""Parts of a row per thread: one thread that is held up keeps others waiting for one part at most."""


def _pool_text() -> str:
    """The text of the pool: places in its memory filled in, and how this processor waits a moment."""
    pauses = {"x86_64": "llvm.x86.sse2.pause", "AMD64": "llvm.x86.sse2.pause"}
    name = pauses.get(platform.machine())
    text = _POOL.replace("PAUSE", f"call void @{name}()" if name else 'fence syncscope("singlethread") seq_cst')
    places = {
        "WORDS": WORDS,
        "ROW_AT": _ROW_AT,
        "DONE": _DONE,
        "ACTIVE": ACTIVE,
        "YIELD": YIELD,
        "NUMBER": NUMBER,
        "STOP": STOP,
        "MOST_PARTS": MOST_PARTS,
    }
    for key in sorted(places, key=len, reverse=True):
        text = text.replace(f"i64 {key}", f"i64 {places[key]}").replace(f", {key}", f", {places[key]}")
    return text + (f"declare void @{name}()\n" if name else "")


TEXT = (
    _WALK
    + _RELOCATE
    + _pool_text()
    + _GIVE.replace("NAME", "give32").replace("TYPE", "float")
    + _GIVE.replace("NAME", "give64").replace("TYPE", "double")
)
NAMES = (
    "walk",
    "walk_together",
    "work",
    "strands",
    "again",
    "relocate",
    "copy",
    "copy_on",
    "clear",
    "give32",
    "give64",
)
