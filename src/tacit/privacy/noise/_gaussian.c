/* A keystream's Gaussians, and a noisy sum on its lattice: the compiled twins of box_muller.box_muller_numpy and
 * of the numpy branch of SecretNoise.noisy_mean.
 *
 * Built without -ffast-math: that flag, given to a linker, would set flush-to-zero for the whole process. Loops
 * vectorise with -fno-math-errno -fno-trapping-math alone; on x86-64 there is one clone per instruction set, picked
 * once, when the module is loaded.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_clones.h"

#if CLONES
#define FMA(a, b, c) (fused ? __builtin_fmaf(a, b, c) : (a) * (b) + (c))
#else
#define FMA(a, b, c) ((void)fused, (a) * (b) + (c))
#endif

#define SQRT_HALF_BITS 0x3f3504f3 /* float32 sqrt(1/2) */
#define RARE 65536u               /* box_muller.RARE: pairs with a radius word below it are made in float64 */
#define ARC 0x1.921fb54442d18p-30 /* 2 pi / 2^32 */

/* Pairs of words to pairs of Gaussians: cosines in `first`, sines in `second`.
 * Polynomials: Cephes logf, sinf, cosf (S. Moshier). Returns the number of pairs whose radius word is below RARE. */
INLINE int64_t box_muller(const uint32_t *restrict radius, const uint32_t *restrict angle, float *restrict first,
                          float *restrict second, int64_t pairs, float scale, int fused)
{
    float variance = 2.0f * scale * scale;
    int32_t rare = 0;
    for (int64_t i = 0; i < pairs; i++) {
        uint32_t a = radius[i], b = angle[i];
        rare += a < RARE;

        /* energy = -ln u, u = a / 2^32 = m 2^e, sqrt(1/2) <= m < sqrt(2); if e = 0, -complement is u - 1 to float32's
         * relative precision. One signed conversion serves both: of a below 2^31, of 2^32 - 1 - a above. */
        int32_t high = (int32_t)a >> 31;
        float word = (float)((int32_t)a ^ high), complement = (word + 1.0f) * 0x1p-32f;
        float u = high ? 1.0f - complement : word * 0x1p-32f;
        int32_t bits;
        memcpy(&bits, &u, 4);
        bits -= SQRT_HALF_BITS;
        int32_t e = bits >> 23, mantissa = (bits & 0x7fffff) + SQRT_HALF_BITS;
        float m;
        memcpy(&m, &mantissa, 4);
        float f = e == 0 ? -complement : m - 1.0f;
        float f2 = f * f;
        float p = -7.0376836292e-2f;
        p = FMA(p, f, 1.1514610310e-1f);
        p = FMA(p, f, -1.1676998740e-1f);
        p = FMA(p, f, 1.2420140846e-1f);
        p = FMA(p, f, -1.4249322787e-1f);
        p = FMA(p, f, 1.6668057665e-1f);
        p = FMA(p, f, -2.0000714765e-1f);
        p = FMA(p, f, 2.4999993993e-1f);
        p = FMA(p, f, -3.3333331174e-1f);
        float energy = FMA((float)e, -0.693147181f, FMA(f * f2, p, FMA(0.5f, f2, -f)));
        float r = sqrtf(energy * variance);

        /* angle 2 pi b / 2^32 = t + quarter pi / 2 with t in [-pi/4, pi/4); the quarter is in the two highest bits */
        float t = (float)(int32_t)(b << 2) * 0x1.921fb6p-32f;
        float t2 = t * t;
        float s = FMA(FMA(FMA(-1.9515295891e-4f, t2, 8.3321608736e-3f), t2, -1.6666654611e-1f) * t2, t, t);
        float q = FMA(FMA(2.443315711809948e-5f, t2, -1.388731625493765e-3f), t2, 4.166664568298827e-2f);
        float c = FMA(q * t2, t2, FMA(-0.5f, t2, 1.0f));
        uint32_t quarter = b + 0x20000000u;
        int32_t odd = (int32_t)(quarter << 1) >> 31;
        float x = (odd ? s : c) * r, y = (odd ? c : s) * r;
        uint32_t cosine, sine;
        memcpy(&cosine, &x, 4), memcpy(&sine, &y, 4);
        cosine ^= (quarter + 0x40000000u) & 0x80000000u, sine ^= quarter & 0x80000000u;
        memcpy(first + i, &cosine, 4), memcpy(second + i, &sine, 4);
    }
    return rare;
}

/* The pairs with a radius word below RARE, once more, with one of the `left` further words each. Returns how many such
 * pairs there are; without a word, a pair stays as it is. */
static int64_t rare_pairs(const uint32_t *radius, const uint32_t *angle, const uint64_t *extra, int64_t left,
                          float *first, float *second, int64_t pairs, double scale)
{
    int64_t k = 0;
    for (int64_t i = 0; i < pairs; i++) {
        if (radius[i] >= RARE)
            continue;
        if (k < left) {
            double u = (radius[i] + ((double)extra[k] + 0.5) * 0x1p-64) * 0x1p-32;
            double r = scale * sqrt(-2.0 * log(u));
            first[i] = (float)(r * cos(angle[i] * ARC));
            second[i] = (float)(r * sin(angle[i] * ARC));
        }
        k++;
    }
    return k;
}

#if defined(__GNUC__)
#define PLACE_BY_PLACE _Pragma("GCC ivdep") /* out may be total */
#else
#define PLACE_BY_PLACE
#endif

/* total / step + noise at the nearest whole number, times step / divisor; the total is of float64 if `wide`. */
INLINE void release(const float *noise, const void *total, int wide, float *out, int64_t size, double step,
                    double divisor)
{
    double inverse = 1.0 / step;
    float unit = (float)(step / divisor);
    PLACE_BY_PLACE
    for (int64_t i = 0; i < size; i++) {
        double sum = wide ? ((const double *)total)[i] : (double)((const float *)total)[i];
        out[i] = (float)rint(sum * inverse + (double)noise[i]) * unit;
    }
}

typedef struct {
    const uint32_t *words; /* 2 * pairs, radii first, angles second */
    const uint64_t *extra;
    int64_t left; /* how many words `extra` holds */
    const void *total; /* what the noise is added to; NULL: nothing, and there is no lattice */
    int wide;
    float *out; /* 2 * pairs, cosines first, sines second */
    int64_t pairs;
    double scale, step, divisor;
} request;

#define BLOCK 1024 /* pairs whose noise stays in the first-level cache until it is added */

/* Returns whether there was one further word for each rare pair. */
INLINE int fill(const request *r, int fused)
{
    float noise[2][BLOCK];
    int64_t rare = 0;
    double scale = r->total ? r->scale / r->step : r->scale; /* a power of two: exact */
    for (int64_t start = 0; start < r->pairs; start += BLOCK) {
        int64_t pairs = r->pairs - start < BLOCK ? r->pairs - start : BLOCK;
        const uint32_t *radius = r->words + start, *angle = radius + r->pairs;
        float *out[2] = {r->out + start, r->out + r->pairs + start};
        float *first = r->total ? noise[0] : out[0], *second = r->total ? noise[1] : out[1];
        if (box_muller(radius, angle, first, second, pairs, (float)scale, fused))
            rare += rare_pairs(radius, angle, r->extra + rare, r->left - rare, first, second, pairs, scale);
        for (int half = 0; r->total && half < 2; half++) {
            int64_t place = out[half] - r->out;
            if (r->wide)
                release(noise[half], (const double *)r->total + place, 1, out[half], pairs, r->step, r->divisor);
            else
                release(noise[half], (const float *)r->total + place, 0, out[half], pairs, r->step, r->divisor);
        }
    }
    return rare == r->left;
}

typedef int kernel(const request *);

static int fill_baseline(const request *r) { return fill(r, 0); }

#if CLONES
AVX2 static int fill_avx2(const request *r) { return fill(r, 1); }
AVX512 static int fill_avx512(const request *r) { return fill(r, 1); }
#endif

static kernel *best(void)
{
#if CLONES
    if (widest() > 128)
        return widest() == 512 ? fill_avx512 : fill_avx2;
#endif
    return fill_baseline;
}

static kernel *chosen;

static int misaligned(const Py_buffer *buffer, size_t size)
{
    return (uintptr_t)buffer->buf % size != 0 || buffer->len % (Py_ssize_t)size != 0;
}

/* Both functions: `total` may be NULL. Returns NULL with an exception if the buffers do not fit. */
static PyObject *run(const Py_buffer *words, const Py_buffer *extra, const Py_buffer *total, const Py_buffer *out,
                     double scale, double step, double divisor)
{
    int wide = total && total->len == 2 * out->len;
    if (misaligned(words, 4) || misaligned(extra, 8) || misaligned(out, 4) || words->len % 8 != 0 ||
        words->len != out->len || words->len / 8 >= INT32_MAX ||
        (total && (misaligned(total, wide ? 8 : 4) || (!wide && total->len != out->len)))) {
        PyErr_SetString(PyExc_ValueError, "words, total and out must be aligned and of the same even size");
        return NULL;
    }
    request r = {words->buf, extra->buf, extra->len / 8, total ? total->buf : NULL, wide, out->buf, words->len / 8,
                 scale, step, divisor};
    int complete;
    Py_BEGIN_ALLOW_THREADS
    complete = chosen(&r);
    Py_END_ALLOW_THREADS
    if (complete)
        return Py_NewRef(Py_None);
    PyErr_SetString(PyExc_ValueError, "extra must hold one word for each rare pair");
    return NULL;
}

static PyObject *py_gaussian(PyObject *module, PyObject *args)
{
    Py_buffer words, extra, out;
    double scale;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*w*d:gaussian", &words, &extra, &out, &scale))
        return NULL;
    PyObject *result = run(&words, &extra, NULL, &out, scale, 0.0, 1.0);
    PyBuffer_Release(&words);
    PyBuffer_Release(&extra);
    PyBuffer_Release(&out);
    return result;
}

static PyObject *py_noisy_mean(PyObject *module, PyObject *args)
{
    Py_buffer words, extra, total, out;
    double scale, step, divisor;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*w*ddd:noisy_mean", &words, &extra, &total, &out, &scale, &step, &divisor))
        return NULL;
    PyObject *result = run(&words, &extra, &total, &out, scale, step, divisor);
    PyBuffer_Release(&words);
    PyBuffer_Release(&extra);
    PyBuffer_Release(&total);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"gaussian", py_gaussian, METH_VARARGS, "gaussian(words, extra, out, scale)"},
    {"noisy_mean", py_noisy_mean, METH_VARARGS, "noisy_mean(words, extra, total, out, scale, step, divisor)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_gaussian", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__gaussian(void)
{
    chosen = best();
    return PyModuleDef_Init(&definition);
}
