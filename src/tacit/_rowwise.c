/* The compiled twin of rowwise.product for few rows: the same split, the same bits.
 *
 * Every sum below but one addition is exact (rowwise.py says why), so neither the order nor fused operations change a
 * bit. On x86-64 there is one clone per instruction set, picked once, when the module is loaded.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "_clones.h"

#define LARGEST 512 /* of k and m: what a thread's stack holds */
#define LARGEST_SHIFT 1000

typedef struct {
    const double *x, *w; /* [n, k], [k, m] */
    double *out;         /* [n, m] */
    double *parts;       /* of w: [2, k, m] */
    int64_t n, k, m;
    double first, second; /* 1.5 2^(52 - b), 1.5 2^(52 - 2 b): adding and subtracting them rounds to a grid */
} request;

INLINE int exponent_of(double largest)
{
    int exponent;
    (void)frexp(largest, &exponent);
    return exponent < -LARGEST_SHIFT ? -LARGEST_SHIFT : exponent > LARGEST_SHIFT ? LARGEST_SHIFT : exponent;
}

INLINE double larger(double largest, double value) /* NaN, once there is one */
{
    double size = fabs(value);
    return largest != largest || size <= largest ? largest : size;
}

INLINE void run(const request *r)
{
    int64_t k = r->k, m = r->m;
    double first = r->first, second = r->second, scale[LARGEST], columns[LARGEST];
    double *w1 = r->parts, *w2 = r->parts + k * m;
    for (int64_t j = 0; j < m; j++)
        columns[j] = 0.0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < m; j++)
            columns[j] = larger(columns[j], r->w[i * m + j]);
    for (int64_t j = 0; j < m; j++) {
        int exponent = exponent_of(columns[j]);
        columns[j] = ldexp(1.0, exponent), scale[j] = ldexp(1.0, -exponent);
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < m; j++) {
            double rest = r->w[i * m + j] * scale[j], high = rest + first - first;
            w1[i * m + j] = high;
            w2[i * m + j] = rest - high + second - second;
        }
    for (int64_t row = 0; row < r->n; row++) {
        const double *x = r->x + row * k;
        double low[LARGEST], high[LARGEST], largest = 0.0;
        for (int64_t i = 0; i < k; i++)
            largest = larger(largest, x[i]);
        int exponent = exponent_of(largest);
        double down = ldexp(1.0, -exponent), up = ldexp(1.0, exponent);
        for (int64_t j = 0; j < m; j++)
            low[j] = high[j] = 0.0;
        for (int64_t i = 0; i < k; i++) {
            double rest = x[i] * down, x1 = rest + first - first, x2 = rest - x1 + second - second;
            const double *a = w1 + i * m, *b = w2 + i * m;
            for (int64_t j = 0; j < m; j++) {
                low[j] += x1 * b[j] + x2 * a[j];
                high[j] += x1 * a[j];
            }
        }
        for (int64_t j = 0; j < m; j++)
            r->out[row * m + j] = (low[j] + high[j]) * up * columns[j];
    }
}

typedef void kernel(const request *);

static void run_baseline(const request *r) { run(r); }

#if CLONES
AVX2 static void run_avx2(const request *r) { run(r); }
AVX512 static void run_avx512(const request *r) { run(r); }
#endif

static kernel *best(void)
{
#if CLONES
    if (widest() > 128)
        return widest() == 512 ? run_avx512 : run_avx2;
#endif
    return run_baseline;
}

static kernel *chosen;

/* product(x, w, out, n, k, m, bits): C-contiguous float64 arrays [n, k], [k, m], [n, m] */
static PyObject *py_product(PyObject *module, PyObject *args)
{
    Py_buffer x, w, out;
    Py_ssize_t n, k, m;
    int bits;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*w*nnni:product", &x, &w, &out, &n, &k, &m, &bits))
        return NULL;
    PyObject *result = NULL;
    double *parts = NULL;
    if (n < 0 || k < 1 || k > LARGEST || m < 1 || m > LARGEST || bits < 1 || bits > 26 || x.len != 8 * n * k ||
        w.len != 8 * k * m || out.len != 8 * n * m)
        PyErr_SetString(PyExc_ValueError, "x, w and out must be of the sizes that are given, and these not too large");
    else if (!(parts = malloc(2 * sizeof(double) * (size_t)(k * m))))
        PyErr_NoMemory();
    else {
        request r = {x.buf, w.buf, out.buf, parts, n, k, m, ldexp(1.5, 52 - bits), ldexp(1.5, 52 - 2 * bits)};
        chosen(&r);
        result = Py_NewRef(Py_None);
    }
    free(parts);
    PyBuffer_Release(&x);
    PyBuffer_Release(&w);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"product", py_product, METH_VARARGS, "product(x, w, out, n, k, m, bits)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_rowwise", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__rowwise(void)
{
    chosen = best();
    return PyModuleDef_Init(&definition);
}
