/* Box-Muller on a keystream: the compiled twin of tacit.privacy.box_muller.box_muller_numpy.
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

#if defined(__x86_64__) && defined(__GNUC__)
#define CLONES 1
#define INLINE static inline __attribute__((always_inline))
#else
#define CLONES 0
#define INLINE static inline
#endif

#define SQRT_HALF_BITS 0x3f3504f3 /* float32 sqrt(1/2) */
#define RARE 65536u               /* box_muller.RARE: radius words below it are refined by the caller */

/* words: 2 * pairs keystream words, radii first, angles second; out: cosines first, sines second.
 * Polynomials: Cephes logf, sinf, cosf (S. Moshier). Returns the number of pairs whose radius word is below RARE. */
INLINE int64_t box_muller_body(const uint32_t *restrict words, float *restrict out, int64_t pairs, float scale)
{
    const uint32_t *restrict radius = words, *restrict angle = words + pairs;
    float *restrict first = out, *restrict second = out + pairs;
    int32_t rare = 0; /* pairs < 2^31, checked by the caller */
    for (int64_t i = 0; i < pairs; i++) {
        uint32_t a = radius[i], b = angle[i];
        rare += a < RARE;

        /* energy = -ln u, u = a / 2^32 = m 2^e, sqrt(1/2) <= m < sqrt(2); if e = 0, m - 1 is the exact u - 1 */
        float u = (float)a * 0x1p-32f, complement = (float)(0u - a) * 0x1p-32f;
        int32_t bits;
        memcpy(&bits, &u, 4);
        bits -= SQRT_HALF_BITS;
        int32_t e = bits >> 23, mantissa = (bits & 0x7fffff) + SQRT_HALF_BITS;
        float m;
        memcpy(&m, &mantissa, 4);
        float f = e == 0 ? -complement : m - 1.0f;
        float f2 = f * f;
        float p = 7.0376836292e-2f;
        p = p * f - 1.1514610310e-1f;
        p = p * f + 1.1676998740e-1f;
        p = p * f - 1.2420140846e-1f;
        p = p * f + 1.4249322787e-1f;
        p = p * f - 1.6668057665e-1f;
        p = p * f + 2.0000714765e-1f;
        p = p * f - 2.4999993993e-1f;
        p = p * f + 3.3333331174e-1f;
        float log_m = f + (f * f2 * p - 0.5f * f2);
        float energy = -(log_m + (float)e * 0.693147181f);
        float r = scale * sqrtf(2.0f * energy);

        /* angle 2 pi b / 2^32 = t + quarter pi / 2 with t in [-pi/4, pi/4) */
        float t = (float)(int32_t)(b << 2) * 0x1.921fb6p-32f;
        float t2 = t * t;
        float s = ((-1.9515295891e-4f * t2 + 8.3321608736e-3f) * t2 - 1.6666654611e-1f) * t2 * t + t;
        float q = (2.443315711809948e-5f * t2 - 1.388731625493765e-3f) * t2 + 4.166664568298827e-2f;
        float c = q * t2 * t2 - 0.5f * t2 + 1.0f;
        uint32_t quarter = (b + 0x20000000u) >> 30;
        float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
        first[i] = (quarter + 1) & 2 ? -r * x : r * x;
        second[i] = quarter & 2 ? -r * y : r * y;
    }
    return rare;
}

typedef int64_t kernel(const uint32_t *, float *, int64_t, float);

static int64_t box_muller_baseline(const uint32_t *words, float *out, int64_t pairs, float scale)
{
    return box_muller_body(words, out, pairs, scale);
}

#if CLONES
__attribute__((target("avx2,fma")))
static int64_t box_muller_avx2(const uint32_t *words, float *out, int64_t pairs, float scale)
{
    return box_muller_body(words, out, pairs, scale);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
static int64_t box_muller_avx512(const uint32_t *words, float *out, int64_t pairs, float scale)
{
    return box_muller_body(words, out, pairs, scale);
}
#endif

static kernel *best_kernel(void)
{
#if CLONES
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return box_muller_avx512;
    if (avx2)
        return box_muller_avx2;
#endif
    return box_muller_baseline;
}

static kernel *chosen;

static PyObject *box_muller(PyObject *module, PyObject *args)
{
    Py_buffer words, out;
    float scale;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*w*f:box_muller", &words, &out, &scale))
        return NULL;
    PyObject *result = NULL;
    int aligned = ((uintptr_t)words.buf | (uintptr_t)out.buf) % 4 == 0;
    if (words.len % 8 != 0 || words.len != out.len || words.len / 8 >= INT32_MAX || !aligned) {
        PyErr_SetString(PyExc_ValueError, "box_muller: words and out must be aligned and of the same even size");
    } else {
        int64_t rare;
        Py_BEGIN_ALLOW_THREADS
        rare = chosen(words.buf, out.buf, words.len / 8, scale);
        Py_END_ALLOW_THREADS
        result = PyLong_FromLongLong(rare);
    }
    PyBuffer_Release(&words);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"box_muller", box_muller, METH_VARARGS, "box_muller(words, out, scale) -> number of pairs to refine"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_gaussian", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__gaussian(void)
{
    chosen = best_kernel();
    return PyModuleDef_Init(&definition);
}
