/* CUDA's words for a host compiler: one block after the other, a warp as 32 coroutines that change places at __syncwarp; each warp
runs until all of it waits for the block, then the next one does.

Put in front of a kernel's text (-include). Shared memory is poisoned before each block, and an asynchronous copy is done no sooner
than it is waited for, so that a read of what is not there yet is seen. */
#define LW_SHIM
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __launch_bounds__(...)
#define LW_FN static inline
#define LW_PART static __attribute__((noinline))
#define LW_TABLE static const
#define LW_SHARED(name) real *name = (real *)lw_memory
#define LW_ADDRESS(p) ((char *)(p))
#define LW_DATA static const
#define LW_PUT(s, o, x) (*(real *)((s) + (o)) = (x))
#define LW_GET(s, o, x) ((x) = *(real *)((s) + (o)))
#define LW_SHUFFLE(x, from) lw_shuffle(x, from)
#define LW_COPY(to, from) lw_warp.copies[lw_warp.lane].back().push_back({(to), (from), sizeof *(to)})
#define LW_COPY16(to, from) lw_copy16((to), (from))
#define LW_SOON(from)
#define LW_BULK 1
#define LW_FENCE()
#define LW_WRITE(to, from, bytes) lw_write((to), (from), (size_t)(bytes))
#define LW_WRITTEN() lw_written()
#define LW_COMMIT() lw_warp.copies[lw_warp.lane].push_back({})
#define LW_ARRIVE(n) lw_arrive(n)
#define LW_BLOCK()
#define LW_TOGETHER() lw_together()

typedef char *lw_slot;
static char *lw_memory;
static struct { unsigned x; } threadIdx, blockIdx;

struct lw_copy { void *to; const void *from; size_t size; };
struct lw_of_warp {
    ucontext_t lanes[32];
    bool done[32], waits[32]; /* waits: for the other warps of the block */
    int lane;
    std::deque<std::vector<lw_copy>> copies[32];
    std::vector<lw_copy> writes[32]; /* done no sooner than they are waited for */
    bool votes[32];
    std::vector<std::vector<char>> stacks = std::vector<std::vector<char>>(32, std::vector<char>(1 << 18));
};
static std::vector<lw_of_warp> lw_warps;
static lw_of_warp *lw_current;
#define lw_warp (*lw_current)
static ucontext_t lw_main;
static std::function<void()> lw_kernel;

static void lw_copy16(void *to, const void *from) {
    if (((size_t)to | (size_t)from) & 15) abort(); /* as a GPU would */
    lw_warp.copies[lw_warp.lane].back().push_back({to, from, 16});
}
static void lw_write(void *to, const void *from, size_t size) {
    if (((size_t)to | (size_t)from | size) & 15) abort();
    lw_warp.writes[lw_warp.lane].push_back({to, from, size});
}
static void lw_written() {
    for (auto &w : lw_warp.writes[lw_warp.lane]) memcpy(w.to, w.from, w.size);
    lw_warp.writes[lw_warp.lane].clear();
}

static void __syncwarp() { swapcontext(&lw_warp.lanes[lw_warp.lane], &lw_main); }
static void lw_together() {
    lw_warp.waits[lw_warp.lane] = true;
    __syncwarp();
}

static bool LW_ANY(bool x) { /* of the block */
    bool any = false;
    lw_warp.votes[lw_warp.lane] = x;
    lw_together();
    for (auto &warp : lw_warps)
        for (bool vote : warp.votes) any = any || vote;
    lw_together();
    return any;
}

template <class T> static T lw_shuffle(T x, int from) {
    static T given[32];
    given[lw_warp.lane] = x;
    __syncwarp();
    const T found = given[from];
    __syncwarp();
    return found;
}

static void lw_arrive(size_t left) {
    auto &groups = lw_warp.copies[lw_warp.lane]; /* the last one is open */
    while (groups.size() > left + 1) {
        for (auto &c : groups.front()) memcpy(c.to, c.from, c.size);
        groups.pop_front();
    }
}

static void lw_lane_main() {
    lw_kernel();
    lw_warp.done[lw_warp.lane] = true;
    swapcontext(&lw_warp.lanes[lw_warp.lane], &lw_main);
}

static void lw_begin_warp() {
    for (int k = 0; k < 32; k++) {
        lw_warp.done[k] = lw_warp.waits[k] = lw_warp.votes[k] = false;
        lw_warp.copies[k].assign(1, {});
        getcontext(&lw_warp.lanes[k]);
        lw_warp.lanes[k].uc_stack = {lw_warp.stacks[k].data(), 0, lw_warp.stacks[k].size()};
        lw_warp.lanes[k].uc_link = nullptr;
        makecontext(&lw_warp.lanes[k], lw_lane_main, 0);
    }
}

/* Run a warp until all of it is done or waits for the block; whether it waits. */
static bool lw_run_warp(unsigned first) {
    bool waits = false;
    for (bool going = true; going;) {
        going = false;
        for (int k = 0; k < 32; k++) {
            if (lw_warp.done[k] || lw_warp.waits[k]) continue;
            lw_warp.lane = k;
            threadIdx.x = first + k;
            swapcontext(&lw_main, &lw_warp.lanes[k]);
            going = going || !(lw_warp.done[k] || lw_warp.waits[k]);
            waits = waits || lw_warp.waits[k];
        }
    }
    return waits;
}

static void lw_run_grid(unsigned blocks, unsigned threads, size_t shared, std::function<void()> kernel) {
    lw_memory = (char *)aligned_alloc(16, (shared + 31) / 16 * 16);
    lw_kernel = std::move(kernel);
    lw_warps.resize(threads / 32);
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        memset(lw_memory, 0xff, shared); /* NaN */
        for (auto &warp : lw_warps) {
            lw_current = &warp;
            lw_begin_warp();
        }
        for (bool going = true; going;) {
            going = false;
            for (auto &warp : lw_warps) {
                lw_current = &warp;
                for (bool &waits : warp.waits) waits = false;
                going = lw_run_warp(32 * (&warp - lw_warps.data())) || going;
            }
        }
    }
    free(lw_memory);
}

template <class T> static T lw_fused(T a, T b, T c) { /* GCC turns -fma(a, b, c) into fma(-a, b, -c): the sign of zero */
    T sum = std::fma(a, b, c);
    __asm__("" : "+x"(sum));
    return sum;
}
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return std::sqrt(a); }
static inline float __fmaf_rn(float a, float b, float c) { return lw_fused(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return std::sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return lw_fused(a, b, c); }
static inline float __int_as_float(int32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline int32_t __float_as_int(float x) { int32_t y; memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
