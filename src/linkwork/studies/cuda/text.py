"""CUDA text of kernels for sampling and reductions.

The arithmetic is that of the host, operation by operation (the compiler must not fuse products and sums).
If LW_SHIM is defined, the features of a GPU are defined elsewhere (see tests/helpers/cuda_shim.h).
"""

THREADS = 256  # of a block in every kernel
BLOCK = 1024  # samples of a block of a study
ROWS_OF_THREAD = 32  # that a thread of `bucket_range` reads

SHARED_BYTES = {"moments": 12 * BLOCK + 16, "extremes": 9 * BLOCK + 16 * THREADS + 16}

KERNELS = ("uniforms", "scale", "check", "moments", "extremes", "bucket_range", "bucket_counts")

CUDA_TEXT = r"""
#ifndef LW_SHIM
#define LW_FN static __device__ __forceinline__
#define LW_TOGETHER() __syncthreads()
extern __shared__ __align__(16) char lw_memory[];
#endif
#define THREADS 256
#define BLOCK 1024
#define ROWS_OF_THREAD 32
typedef unsigned long long word;
typedef long long whole;

LW_FN whole thread_number() { return (whole)blockIdx.x * THREADS + threadIdx.x; }
LW_FN bool is_finite(double x) { return x - x == 0.0; }

/* Uniform numbers in (0, 1) from words first to first + count - 1 of a stream of Philox4x64-10 (Salmon et al.
2011); each thread makes one block of four words. The counter is incremented before use, as in NumPy. */
extern "C" __global__ void uniforms(whole first, whole count, word key0, word key1, double *out) {
    const whole block = first / 4 + thread_number();
    if (4 * block >= first + count) return;
    word c0 = (word)block + 1, c1 = 0, c2 = 0, c3 = 0;
    for (int k = 0; k < 10; k++) {
        const word a = 0xD2E7470EE14C6C93ull, b = 0xCA5A826395121157ull;
        const word high0 = __umul64hi(a, c0), low0 = a * c0, high1 = __umul64hi(b, c2), low1 = b * c2;
        c0 = high1 ^ c1 ^ key0;
        c1 = low1;
        c2 = high0 ^ c3 ^ key1;
        c3 = low0;
        key0 += 0x9E3779B97F4A7C15ull;
        key1 += 0xBB67AE8584CAA73Bull;
    }
    const word words[4] = {c0, c1, c2, c3};
    for (int k = 0; k < 4; k++) {
        const whole place = 4 * block + k - first;
        if (place < 0 || place >= count) continue;
        const word bits = (words[k] >> 12) | 0x3FF0000000000000ull; /* of a number from 1 to 2 */
        out[place] = __longlong_as_double((whole)bits) - 0x1.fffffffffffffp-1;
    }
}

/* x * factor + summand, limited to low and high; `size` numbers of each row have factors of their own, and
may share x. */
extern "C" __global__ void scale(whole count, whole size, int shared, const double *x, double *out,
                                 const double *factor, const double *summand, const double *low,
                                 const double *high) {
    const whole i = thread_number();
    if (i >= count) return;
    const whole k = i % size;
    const double y = x[shared ? i / size : i] * factor[k] + summand[k];
    out[i] = y < low[k] ? low[k] : y > high[k] ? high[k] : y;
}

/* Set the flag if a number is not finite or below a minimum. */
extern "C" __global__ void check(whole count, const double *x, double minimum, int *flag) {
    const whole i = thread_number();
    if (i < count && !(is_finite(x[i]) && x[i] >= minimum)) *flag = 1;
}

/* An output of rows: `width` numbers each, `step` apart; null `accepted`: all rows are. */
struct output_rows {
    whole rows, width, step;
    const double *x;
    const unsigned char *accepted;
};
LW_FN bool is_counted(const output_rows &output, whole row) {
    if (row >= output.rows || (output.accepted && !output.accepted[row])) return false;
    for (whole k = 0; k < output.width; k++)
        if (!is_finite(output.x[row * output.step + k])) return false;
    return true;
}

/* Compensated sum of BLOCK numbers: upper and lower half, over and over (`accumulate.sum_blocks`). */
LW_FN void sum_block(double *x, double *lost) {
    for (int size = BLOCK / 2; size > 0; size /= 2) {
        LW_TOGETHER();
        for (int i = threadIdx.x; i < size; i += THREADS) {
            const double a = x[i], b = x[i + size];
            const double total = a + b, part = total - a, error = (a - (total - part)) + (b - part);
            lost[i] = size == BLOCK / 2 ? error : (lost[i] + lost[i + size]) + error;
            x[i] = total;
        }
    }
    LW_TOGETHER();
}

/* Number of accepted rows of each block of samples; for each component compensated sum and sum of squared
deviations. */
extern "C" __global__ void moments(output_rows output, double *numbers, double *sums, double *losts,
                                   double *squares) {
    double *x = (double *)lw_memory, *lost = x + BLOCK;
    int *number = (int *)(lost + BLOCK / 2);
    const whole block = blockIdx.x / output.width, component = blockIdx.x % output.width;
    if (threadIdx.x == 0) *number = 0;
    LW_TOGETHER();
    int own = 0;
    for (int i = threadIdx.x; i < BLOCK; i += THREADS) {
        const whole row = block * BLOCK + i;
        const bool counted = is_counted(output, row);
        own += counted;
        x[i] = counted ? output.x[row * output.step + component] : 0.0;
    }
    atomicAdd(number, own);
    sum_block(x, lost);
    const double count = (double)*number, sum = x[0], rest = lost[0];
    const double mean = (sum + rest) / (count > 1.0 ? count : 1.0);
    LW_TOGETHER();
    for (int i = threadIdx.x; i < BLOCK; i += THREADS) {
        const whole row = block * BLOCK + i;
        const bool counted = is_counted(output, row);
        const double deviation = counted ? output.x[row * output.step + component] - mean : 0.0;
        x[i] = deviation * deviation;
    }
    sum_block(x, lost);
    if (threadIdx.x > 0) return;
    numbers[block] = count;
    sums[blockIdx.x] = sum;
    losts[blockIdx.x] = rest;
    squares[blockIdx.x] = x[0] + lost[0];
}

/* The `kept` smallest (sign 1) or largest (sign -1) values of each block and their rows, in order; -1 where
there are fewer. */
LW_FN void select_extremes(const double *x, char *state, double *best, whole *places, double sign, int kept,
                           whole first, double *values, whole *rows) {
    for (int n = 0; n < kept; n++) {
        double own = 0.0;
        whole place = -1;
        for (int i = threadIdx.x; i < BLOCK; i += THREADS)
            if (state[i] == 1 && (place < 0 || sign * x[i] < own)) {
                own = sign * x[i];
                place = i;
            }
        best[threadIdx.x] = own;
        places[threadIdx.x] = place;
        for (int size = THREADS / 2; size > 0; size /= 2) {
            LW_TOGETHER();
            if (threadIdx.x < size) {
                const int i = threadIdx.x, j = i + size;
                const bool precedes = best[j] < best[i] || (best[j] == best[i] && places[j] < places[i]);
                if (places[j] >= 0 && (places[i] < 0 || precedes)) {
                    best[i] = best[j];
                    places[i] = places[j];
                }
            }
        }
        LW_TOGETHER();
        if (threadIdx.x == 0) {
            values[n] = places[0] < 0 ? 0.0 : x[places[0]];
            rows[n] = places[0] < 0 ? -1 : first + places[0];
            if (places[0] >= 0) state[places[0]] = 2;
        }
        LW_TOGETHER();
    }
}

extern "C" __global__ void extremes(output_rows output, int kept, whole *numbers, double *values,
                                    whole *rows) {
    double *x = (double *)lw_memory, *best = x + BLOCK;
    whole *places = (whole *)(best + THREADS);
    int *number = (int *)(places + THREADS);
    char *state = (char *)(number + 4); /* 0: does not count, 1: does, 2: selected */
    const whole first = (whole)blockIdx.x * BLOCK;
    for (int turn = 0; turn < 2; turn++) {
        if (threadIdx.x == 0) *number = 0;
        LW_TOGETHER();
        int own = 0;
        for (int i = threadIdx.x; i < BLOCK; i += THREADS) {
            state[i] = is_counted(output, first + i);
            x[i] = state[i] ? output.x[(first + i) * output.step] : 0.0;
            own += state[i];
        }
        atomicAdd(number, own);
        LW_TOGETHER();
        if (threadIdx.x == 0) numbers[blockIdx.x] = *number;
        const whole place = (2 * (whole)blockIdx.x + turn) * kept;
        select_extremes(x, state, best, places, turn ? -1.0 : 1.0, kept, first, values + place, rows + place);
    }
}

/* Bucket of a number in a sketch of quantiles (`reductions.ordered`). */
LW_FN int bucket_of(double x, int bits) {
    const whole raw = __double_as_longlong(x);
    const int magnitude = (int)((raw & 0x7FFFFFFFFFFFFFFFll) >> (52 - bits));
    return raw < 0 ? -magnitude - 1 : magnitude;
}

/* Smallest and largest bucket of rows first to last - 1. */
extern "C" __global__ void bucket_range(output_rows output, whole component, whole first, whole last,
                                        int bits, int *range) {
    int low = 0x7FFFFFFF, high = -0x7FFFFFFF;
    for (int k = 0; k < ROWS_OF_THREAD; k++) {
        const whole row = first + ((whole)blockIdx.x * ROWS_OF_THREAD + k) * THREADS + threadIdx.x;
        if (row >= last || !is_counted(output, row)) continue;
        const int bucket = bucket_of(output.x[row * output.step + component], bits);
        low = bucket < low ? bucket : low;
        high = bucket > high ? bucket : high;
    }
    if (low > high) return;
    atomicMin(&range[0], low);
    atomicMax(&range[1], high);
}

/* Number of rows first to last - 1 in each bucket from `least` on. */
extern "C" __global__ void bucket_counts(output_rows output, whole component, whole first, whole last,
                                         int bits, int least, unsigned *counts) {
    const whole row = first + thread_number();
    if (row < last && is_counted(output, row))
        atomicAdd(&counts[bucket_of(output.x[row * output.step + component], bits) - least], 1u);
}
"""
