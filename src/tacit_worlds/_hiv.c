/* The classical Runge-Kutta method for the HIV equations: the compiled twin of tacit_worlds.hiv.integrate_numpy.
 *
 * Patients are worked on in blocks, so that the loops over a block vectorise. Built without -ffast-math (given to a
 * linker, it would set flush-to-zero for the whole process); on x86-64 there is one clone per instruction set, picked
 * once, when the module is loaded.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "_clones.h"

enum { STATES = 6, BLOCK = 16 };

/* s, d: T1, T2, T1*, T2*, V, E and their rates of change per day, of one block; rti, pi: efficacies of the drugs. */
INLINE void rates(const double s[STATES][BLOCK], const double rti[BLOCK], const double pi[BLOCK],
                  double d[STATES][BLOCK])
{
    for (int i = 0; i < BLOCK; i++) {
        double t1 = s[0][i], t2 = s[1][i], i1 = s[2][i], i2 = s[3][i], v = s[4][i], e = s[5][i];
        double u1 = (1.0 - rti[i]) * 8e-7 * v * t1, u2 = (1.0 - 0.34 * rti[i]) * 1e-4 * v * t2;
        double infected = i1 + i2;
        d[0][i] = 1e4 - 0.01 * t1 - u1;
        d[1][i] = 31.98 - 0.01 * t2 - u2;
        d[2][i] = u1 - 0.7 * i1 - 1e-5 * e * i1;
        d[3][i] = u2 - 0.7 * i2 - 1e-5 * e * i2;
        d[4][i] = (1.0 - pi[i]) * 70.0 * infected - 13.0 * v - (u1 + u2);
        d[5][i] = 1.0 + (0.3 * infected / (infected + 100.0) - 0.25 * infected / (infected + 500.0) - 0.1) * e;
    }
}

INLINE void integrate_body(double *state, const double *drugs, int64_t patients, int64_t steps, double length)
{
    for (int64_t first = 0; first < patients; first += BLOCK) {
        double s[STATES][BLOCK], at[STATES][BLOCK], d[STATES][BLOCK], sum[STATES][BLOCK], rti[BLOCK], pi[BLOCK];
        for (int i = 0; i < BLOCK; i++) {
            int64_t patient = first + i < patients ? first + i : patients - 1;
            rti[i] = drugs[2 * patient];
            pi[i] = drugs[2 * patient + 1];
            for (int k = 0; k < STATES; k++)
                s[k][i] = state[STATES * patient + k];
        }
        for (int64_t step = 0; step < steps; step++) {
            rates(s, rti, pi, d);
            for (int k = 0; k < STATES; k++)
                for (int i = 0; i < BLOCK; i++) {
                    sum[k][i] = d[k][i];
                    at[k][i] = s[k][i] + 0.5 * length * d[k][i];
                }
            rates(at, rti, pi, d);
            for (int k = 0; k < STATES; k++)
                for (int i = 0; i < BLOCK; i++) {
                    sum[k][i] += 2.0 * d[k][i];
                    at[k][i] = s[k][i] + 0.5 * length * d[k][i];
                }
            rates(at, rti, pi, d);
            for (int k = 0; k < STATES; k++)
                for (int i = 0; i < BLOCK; i++) {
                    sum[k][i] += 2.0 * d[k][i];
                    at[k][i] = s[k][i] + length * d[k][i];
                }
            rates(at, rti, pi, d);
            for (int k = 0; k < STATES; k++)
                for (int i = 0; i < BLOCK; i++)
                    s[k][i] += length / 6.0 * (sum[k][i] + d[k][i]);
        }
        for (int i = 0; i < BLOCK && first + i < patients; i++)
            for (int k = 0; k < STATES; k++)
                state[STATES * (first + i) + k] = s[k][i];
    }
}

typedef void kernel(double *, const double *, int64_t, int64_t, double);

static void integrate_baseline(double *state, const double *drugs, int64_t patients, int64_t steps, double length)
{
    integrate_body(state, drugs, patients, steps, length);
}

#if CLONES
AVX2 static void integrate_avx2(double *state, const double *drugs, int64_t patients, int64_t steps, double length)
{
    integrate_body(state, drugs, patients, steps, length);
}

AVX512 static void integrate_avx512(double *state, const double *drugs, int64_t patients, int64_t steps, double length)
{
    integrate_body(state, drugs, patients, steps, length);
}
#endif

static kernel *best_kernel(void)
{
#if CLONES
    if (widest() > 128)
        return widest() == 512 ? integrate_avx512 : integrate_avx2;
#endif
    return integrate_baseline;
}

static kernel *chosen;

static PyObject *integrate(PyObject *module, PyObject *args)
{
    Py_buffer state, drugs;
    long long steps;
    double length;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*y*Ld:integrate", &state, &drugs, &steps, &length))
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t patients = state.len / (STATES * (Py_ssize_t)sizeof(double));
    int aligned = ((uintptr_t)state.buf | (uintptr_t)drugs.buf) % sizeof(double) == 0;
    if (state.len != patients * STATES * (Py_ssize_t)sizeof(double) ||
        drugs.len != patients * 2 * (Py_ssize_t)sizeof(double) || !aligned) {
        PyErr_SetString(PyExc_ValueError, "integrate: state and drugs must be aligned float64 [N, 6] and [N, 2]");
    } else {
        Py_BEGIN_ALLOW_THREADS
        chosen(state.buf, drugs.buf, patients, steps, length);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&state);
    PyBuffer_Release(&drugs);
    return result;
}

static PyMethodDef methods[] = {
    {"integrate", integrate, METH_VARARGS, "integrate(state, drugs, steps, length): advance state [N, 6] in place"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_hiv", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hiv(void)
{
    chosen = best_kernel();
    return PyModuleDef_Init(&definition);
}
