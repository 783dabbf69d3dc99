// A CUDA driver on the CPU, for tests: the calls that the project makes, with the driver's rules and none of its speed.
//
// cuda-python's real bindings load it as libcuda.so.1, so that what they are given has to be of the right type, number and order.
// Work is not done when it is told to a stream but when somebody waits for it, and streams know of each other through events only: a
// forgotten wait gives wrong results, and memory that is freed too early is full of rubbish.  Kernels are functions of shared libraries
// that g++ has made of their CUDA text; an "image" is the path of one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
       NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };

typedef std::function<void()> Work;
struct Stream;
struct Event { bool timing = false; Stream *stream = nullptr; size_t at = 0; bool done = true; float when = 0; };
struct Node { Work work; };
struct Stream {
    std::deque<Work> todo;
    size_t told = 0, did = 0;  // numbers of pieces of work
    std::vector<Work> *capture = nullptr;
    std::set<CUdeviceptr> own;  // memory of the graph that is being captured
    bool broken = false;
};
struct Graph { std::vector<Work> work; std::set<CUdeviceptr> left; };
struct Kernel { void (*run)(unsigned, unsigned, const void *, void *); unsigned size; };
struct Block { size_t size; bool device; };

static std::recursive_mutex guard;
static bool started = false;
static int contexts[2];  // their addresses are the contexts
static thread_local void *current = nullptr;
static std::set<void *> streams, events, graphs, programs, kernels, libraries;
static std::map<uint64_t, Block> memory;  // by address
static float clock_now = 0;
static size_t calls_of_launch = 0;

static CUresult refuse(CUresult code, const char *what) {
    fprintf(stderr, "fake driver: %s\n", what);
    return code;
}
#define ENTER(name) std::lock_guard<std::recursive_mutex> lock(guard); if (!started) return refuse(NOT_INITIALIZED, name " before cuInit")
#define NEED_CONTEXT(name) ENTER(name); if (!current) return refuse(INVALID_CONTEXT, name " without a context")
#define NEED(condition, code, what) do { if (!(condition)) return refuse(code, what); } while (0)

static Stream *stream_of(void *handle) {
    static Stream legacy;
    if (!handle) return &legacy;
    return streams.count(handle) ? static_cast<Stream *>(handle) : nullptr;
}

// Does what was told to a stream, up to a number.
static void run(Stream *s, size_t until) {
    while (s->did < until) {
        Work work = std::move(s->todo.front());
        s->todo.pop_front();
        ++s->did;
        work();
    }
}

static bool inside(CUdeviceptr address, size_t size, bool device) {
    auto found = memory.upper_bound(address);
    if (found == memory.begin()) return false;
    --found;
    return found->second.device == device && address + size <= found->first + found->second.size;
}

static CUresult tell(Stream *s, Work work) {
    if (s->broken) return CAPTURE_INVALIDATED;
    if (s->capture) s->capture->push_back(std::move(work));
    else { s->todo.push_back(std::move(work)); ++s->told; }
    return SUCCESS;
}
static CUresult no_capture(Stream *s, const char *what) {
    if (s->capture) { s->broken = true; return refuse(CAPTURE_UNSUPPORTED, what); }
    return SUCCESS;
}
static bool any_capture() {
    for (void *s : streams) if (static_cast<Stream *>(s)->capture) return true;
    return false;
}

extern "C" {
CUresult cuInit(unsigned flags) { if (flags) return INVALID_VALUE; started = true; return SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return SUCCESS; }
CUresult cuDeviceGetCount(int *n) { ENTER("cuDeviceGetCount"); const char *given = getenv("FAKE_GPUS"); *n = given ? atoi(given) : 1; return SUCCESS; }
CUresult cuDeviceGet(int *d, int ordinal) { ENTER("cuDeviceGet"); if (ordinal < 0 || ordinal > 1) return INVALID_DEVICE; *d = ordinal; return SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, int) { ENTER("cuDeviceGetName"); snprintf(name, size, "a CPU that plays a GPU"); return SUCCESS; }
CUresult cuDeviceGetAttribute(int *out, int which, int) {
    ENTER("cuDeviceGetAttribute");
    *out = which == 75 ? 9 : which == 88 ? 1 : 0;  // compute capability 9.0, with access to pageable memory
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(void **c, int d) { ENTER("cuDevicePrimaryCtxRetain"); *c = &contexts[d]; return SUCCESS; }
CUresult cuCtxSetCurrent(void *c) { ENTER("cuCtxSetCurrent"); NEED(!c || c == contexts || c == contexts + 1, INVALID_CONTEXT, "no such context"); current = c; return SUCCESS; }
CUresult cuDeviceGetDefaultMemPool(void **p, int) { ENTER("cuDeviceGetDefaultMemPool"); *p = &memory; return SUCCESS; }
CUresult cuMemPoolSetAttribute(void *p, int which, void *value) {
    ENTER("cuMemPoolSetAttribute");
    NEED(p == &memory && which == 4 && *static_cast<uint64_t *>(value) == UINT64_MAX, INVALID_VALUE, "not the release threshold, or not all bytes");
    return SUCCESS;
}
CUresult cuMemGetInfo(size_t *left, size_t *all) { NEED_CONTEXT("cuMemGetInfo"); *left = *all = size_t(1) << 30; return SUCCESS; }

// ---- memory
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, void *pool, void *stream) {
    NEED_CONTEXT("cuMemAllocFromPoolAsync");
    Stream *s = stream_of(stream);
    NEED(s && pool == &memory, INVALID_HANDLE, "allocation with another pool or stream");
    NEED(size, INVALID_VALUE, "allocation of nothing");
    void *made = nullptr;
    if (posix_memalign(&made, 256, size)) return OUT_OF_MEMORY;
    memset(made, 0xCD, size);
    *out = reinterpret_cast<CUdeviceptr>(made);
    memory[*out] = {size, true};
    if (s->capture) s->own.insert(*out);
    return SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr address, void *stream) {
    NEED_CONTEXT("cuMemFreeAsync");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "free on an unknown stream");
    auto found = memory.find(address);
    NEED(found != memory.end() && found->second.device, INVALID_VALUE, "free of what is not allocated");
    size_t size = found->second.size;
    if (s->capture) {  // the memory belongs to the graph, and is there again at the next launch
        NEED(s->own.erase(address), INVALID_VALUE, "a capture frees what it has not allocated");
        return tell(s, [address, size] { memset(reinterpret_cast<void *>(address), 0xDD, size); });
    }
    memory.erase(found);
    return tell(s, [address, size] { memset(reinterpret_cast<void *>(address), 0xDD, size); });  // never given back: a late use shows
}
CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags) {
    NEED_CONTEXT("cuMemHostAlloc");
    NEED(!any_capture(), CAPTURE_UNSUPPORTED, "cuMemHostAlloc in a capture");
    NEED(size && !(flags & ~7u), INVALID_VALUE, "pinned memory of no size, or with unknown flags");
    if (posix_memalign(out, 4096, size)) return OUT_OF_MEMORY;
    memory[reinterpret_cast<uint64_t>(*out)] = {size, false};
    return SUCCESS;
}
CUresult cuMemFreeHost(void *address) {
    NEED_CONTEXT("cuMemFreeHost");
    NEED(!any_capture(), CAPTURE_UNSUPPORTED, "cuMemFreeHost in a capture");
    auto found = memory.find(reinterpret_cast<uint64_t>(address));
    NEED(found != memory.end() && !found->second.device, INVALID_VALUE, "not pinned memory");
    for (void *s : streams) run(static_cast<Stream *>(s), static_cast<Stream *>(s)->told);  // it waits
    memory.erase(found);
    free(address);
    return SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) {
    NEED_CONTEXT("cuMemcpyAsync");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "copy on an unknown stream");
    NEED(inside(to, size, true) && inside(from, size, true), INVALID_VALUE, "copy outside of device memory");
    NEED(to + size <= from || from + size <= to, INVALID_VALUE, "copy of overlapping memory");
    return tell(s, [=] { memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), size); });
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, void *c, CUdeviceptr from, void *d, size_t size, void *stream) {
    NEED(c && d && c != d, INVALID_CONTEXT, "a copy between devices needs two contexts");
    return cuMemcpyAsync(to, from, size, stream);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, void *stream) {
    NEED_CONTEXT("cuMemcpyHtoDAsync");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "copy on an unknown stream");
    NEED(inside(to, size, true), INVALID_VALUE, "copy outside of device memory");
    if (!inside(reinterpret_cast<uint64_t>(from), size, false) && no_capture(s, "pageable memory in a capture")) return CAPTURE_UNSUPPORTED;
    return tell(s, [=] { memcpy(reinterpret_cast<void *>(to), from, size); });  // read late, as a device with access to host memory may
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, void *stream) {
    NEED_CONTEXT("cuMemcpyDtoHAsync");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "copy on an unknown stream");
    NEED(inside(from, size, true), INVALID_VALUE, "copy outside of device memory");
    if (!inside(reinterpret_cast<uint64_t>(to), size, false) && no_capture(s, "pageable memory in a capture")) return CAPTURE_UNSUPPORTED;
    return tell(s, [=] { memcpy(to, reinterpret_cast<void *>(from), size); });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, void *stream) {
    NEED_CONTEXT("cuMemsetD8Async");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "fill on an unknown stream");
    NEED(inside(to, size, true), INVALID_VALUE, "fill outside of device memory");
    return tell(s, [=] { memset(reinterpret_cast<void *>(to), value, size); });
}

// ---- streams and events
CUresult cuStreamCreate(void **out, unsigned flags) {
    NEED_CONTEXT("cuStreamCreate");
    NEED(flags < 2, INVALID_VALUE, "flags of a stream");
    *out = new Stream;
    streams.insert(*out);
    return SUCCESS;
}
CUresult cuStreamDestroy(void *stream) {
    NEED_CONTEXT("cuStreamDestroy");
    NEED(streams.count(stream), INVALID_HANDLE, "no such stream");
    run(static_cast<Stream *>(stream), static_cast<Stream *>(stream)->told);
    streams.erase(stream);
    return SUCCESS;
}
CUresult cuStreamSynchronize(void *stream) {
    NEED_CONTEXT("cuStreamSynchronize");
    Stream *s = stream_of(stream);
    NEED(s, INVALID_HANDLE, "wait for an unknown stream");
    if (no_capture(s, "a wait in a capture")) return CAPTURE_UNSUPPORTED;
    run(s, s->told);
    return SUCCESS;
}
CUresult cuCtxSynchronize() {
    NEED_CONTEXT("cuCtxSynchronize");
    NEED(!any_capture(), CAPTURE_UNSUPPORTED, "a wait for everything in a capture");
    for (void *s : streams) run(static_cast<Stream *>(s), static_cast<Stream *>(s)->told);
    return SUCCESS;
}
CUresult cuEventCreate(void **out, unsigned flags) {
    NEED_CONTEXT("cuEventCreate");
    NEED(!(flags & ~7u), INVALID_VALUE, "flags of an event");
    Event *e = new Event;
    e->timing = !(flags & 2);
    events.insert(*out = e);
    return SUCCESS;
}
CUresult cuEventDestroy(void *event) { NEED_CONTEXT("cuEventDestroy"); NEED(events.erase(event), INVALID_HANDLE, "no such event"); return SUCCESS; }
CUresult cuEventRecord(void *event, void *stream) {
    NEED_CONTEXT("cuEventRecord");
    Stream *s = stream_of(stream);
    NEED(s && events.count(event), INVALID_HANDLE, "record of an unknown event or stream");
    if (no_capture(s, "an event of a stream that captures")) return CAPTURE_UNSUPPORTED;
    Event *e = static_cast<Event *>(event);
    tell(s, [e] { e->when = ++clock_now; });
    e->stream = s;
    e->at = s->told;
    return SUCCESS;
}
CUresult cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    NEED_CONTEXT("cuStreamWaitEvent");
    Stream *s = stream_of(stream);
    NEED(s && events.count(event), INVALID_HANDLE, "wait for an unknown event, or on an unknown stream");
    NEED(flags < 2, INVALID_VALUE, "flags of a wait");
    Event *e = static_cast<Event *>(event);
    Stream *of = e->stream;
    size_t at = e->at;  // of now: a later record does not change what is waited for
    if (no_capture(s, "a stream that captures waits for another one")) return CAPTURE_UNSUPPORTED;
    return of ? tell(s, [of, at] { run(of, at); }) : SUCCESS;
}
CUresult cuEventQuery(void *event) {
    NEED_CONTEXT("cuEventQuery");
    NEED(events.count(event), INVALID_HANDLE, "no such event");
    Event *e = static_cast<Event *>(event);
    return e->stream && e->stream->did < e->at ? NOT_READY : SUCCESS;
}
CUresult cuEventSynchronize(void *event) {
    NEED_CONTEXT("cuEventSynchronize");
    NEED(events.count(event), INVALID_HANDLE, "no such event");
    Event *e = static_cast<Event *>(event);
    if (e->stream) run(e->stream, e->at);
    return SUCCESS;
}
CUresult cuEventElapsedTime(float *out, void *begin, void *end) {
    NEED_CONTEXT("cuEventElapsedTime");
    NEED(events.count(begin) && events.count(end), INVALID_HANDLE, "no such event");
    Event *a = static_cast<Event *>(begin), *b = static_cast<Event *>(end);
    NEED(a->timing && b->timing && a->stream && b->stream, INVALID_HANDLE, "events without times, or not recorded");
    if (a->stream->did < a->at || b->stream->did < b->at) return NOT_READY;
    *out = b->when - a->when;
    return SUCCESS;
}

// ---- graphs
CUresult cuStreamBeginCapture(void *stream, int mode) {
    NEED_CONTEXT("cuStreamBeginCapture");
    NEED(stream && stream_of(stream), INVALID_HANDLE, "capture of the legacy or an unknown stream");
    NEED(mode >= 0 && mode < 3, INVALID_VALUE, "no such mode of capture");
    Stream *s = stream_of(stream);
    NEED(!s->capture, INVALID_VALUE, "it captures already");
    s->capture = new std::vector<Work>;
    s->own.clear();
    return SUCCESS;
}
CUresult cuStreamEndCapture(void *stream, void **out) {
    NEED_CONTEXT("cuStreamEndCapture");
    Stream *s = stream_of(stream);
    NEED(s && s->capture, INVALID_VALUE, "no capture to end");
    Graph *g = new Graph{*s->capture, s->own};
    delete s->capture;
    s->capture = nullptr;
    bool broken = s->broken;
    s->broken = false;
    *out = nullptr;
    if (broken) return refuse(CAPTURE_INVALIDATED, "the capture was broken");
    graphs.insert(*out = g);
    return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
    ENTER("cuGraphInstantiateWithFlags");
    NEED(graphs.count(graph), INVALID_VALUE, "no such graph");
    NEED(!(flags & ~15ull), INVALID_VALUE, "flags of an instantiation");
    NEED(static_cast<Graph *>(graph)->left.empty() || (flags & 1), INVALID_VALUE, "memory stays allocated: a second launch would fail");
    programs.insert(*out = new Graph(*static_cast<Graph *>(graph)));
    return SUCCESS;
}
CUresult cuGraphDestroy(void *graph) { ENTER("cuGraphDestroy"); NEED(graphs.erase(graph), INVALID_VALUE, "no such graph"); return SUCCESS; }
CUresult cuGraphExecDestroy(void *program) { ENTER("cuGraphExecDestroy"); NEED(programs.erase(program), INVALID_VALUE, "no such program"); return SUCCESS; }
CUresult cuGraphLaunch(void *program, void *stream) {
    NEED_CONTEXT("cuGraphLaunch");
    Stream *s = stream_of(stream);
    NEED(s && programs.count(program), INVALID_HANDLE, "launch of no program, or on no stream");
    if (no_capture(s, "a graph in a graph")) return CAPTURE_UNSUPPORTED;
    for (const Work &work : static_cast<Graph *>(program)->work) tell(s, work);
    return SUCCESS;
}

// ---- kernels
CUresult cuLibraryLoadData(void **out, const void *image, void *, void *, unsigned n, void *, void *, unsigned m) {
    NEED_CONTEXT("cuLibraryLoadData");
    NEED(!n && !m, INVALID_VALUE, "options that are not known here");
    *out = dlopen(static_cast<const char *>(image), RTLD_NOW | RTLD_LOCAL);
    NEED(*out, INVALID_VALUE, dlerror());
    libraries.insert(*out);
    return SUCCESS;
}
CUresult cuLibraryGetKernel(void **out, void *library, const char *name) {
    ENTER("cuLibraryGetKernel");
    NEED(libraries.count(library), INVALID_HANDLE, "no such library");
    void *run = dlsym(library, (std::string("run_") + name).c_str()), *size = dlsym(library, (std::string("size_") + name).c_str());
    NEED(run && size, NOT_FOUND, name);
    Kernel *k = new Kernel;
    memcpy(&k->run, &run, sizeof run);
    k->size = *static_cast<unsigned *>(size);
    kernels.insert(*out = k);
    return SUCCESS;
}
CUresult cuKernelGetFunction(void **out, void *kernel) { NEED_CONTEXT("cuKernelGetFunction"); NEED(kernels.count(kernel), INVALID_HANDLE, "no such kernel"); *out = kernel; return SUCCESS; }
CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    NEED_CONTEXT("cuLaunchKernel");
    Stream *s = stream_of(stream);
    NEED(s && kernels.count(f), INVALID_HANDLE, "launch of no kernel, or on no stream");
    NEED(gx && gy == 1 && gz == 1 && bx && bx <= 1024 && by == 1 && bz == 1 && !shared && !extra, INVALID_VALUE, "launch geometry");
    NEED(params && params[0], INVALID_VALUE, "launch without arguments");
    Kernel *k = static_cast<Kernel *>(f);
    std::string block(static_cast<char *>(params[0]), k->size);  // the driver reads arguments at once
    void *log = params[1] ? *static_cast<void **>(params[1]) : nullptr;
    ++calls_of_launch;
    return tell(s, [=] { std::unique_ptr<long long[]> copy(new long long[block.size() / 8 + 1]); memcpy(copy.get(), block.data(), block.size()); k->run(gx, bx, copy.get(), log); });
}

// ---- errors and symbols
CUresult cuGetErrorName(CUresult code, const char **out) {
    static const std::map<int, const char *> names = {{1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {201, "CUDA_ERROR_INVALID_CONTEXT"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}};
    auto found = names.find(code);
    *out = found == names.end() ? nullptr : found->second;
    return *out ? SUCCESS : INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult code, const char **out) { CUresult r = cuGetErrorName(code, out); if (!r) *out = "a rule of the driver was broken"; return r; }
CUresult cuGetProcAddress_v2(const char *symbol, void **out, int, uint64_t, int *status) {
    static void *self = [] { Dl_info where; dladdr(reinterpret_cast<void *>(&cuInit), &where); return dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD); }();
    *out = dlsym(self, symbol);
    if (status) *status = *out ? 0 : 1;
    return *out ? SUCCESS : NOT_FOUND;
}
CUresult cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags) { return cuGetProcAddress_v2(symbol, out, version, flags, nullptr); }
}
