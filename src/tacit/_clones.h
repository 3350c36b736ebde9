/* On x86-64 a kernel has one clone per instruction set; which one serves is asked once, when its module is loaded. */
#if defined(__x86_64__) && defined(__GNUC__)
#define CLONES 1
#define INLINE static inline __attribute__((always_inline))
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))

/* Bits of the widest vectors that this processor has a clone for. */
static int widest(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 128;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? 512
               : 256;
}
#else
#define CLONES 0
#define INLINE static inline
#endif
