#pragma once

// Sums of products over any type, reduced as late as possible.
//
// DOT_FIELD is defined if the type is a field or an extension, whose headers take long to compile.

#ifdef DOT_FIELD
#include "field/extension.cuh"
#else
#include "field/word.cuh"
#endif

// A complex number.
struct __align__(16) Complex {
    double re, im;
};

// `Dot<T>` accumulates a sum of products: `add` takes a left factor and a prepared right factor (which holds whatever
// is the same for every left factor); call `settle` after at most PERIOD products, and before `value`. A thread of the
// tiled kernel has ROWS x COLUMNS of them, and a tile is DEPTH deep.

template <class T>
__device__ __forceinline__ T plus(T a, T b) { return a + b; }
__device__ __forceinline__ i32 plus(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
__device__ __forceinline__ i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ __forceinline__ Complex plus(Complex a, Complex b) {
    a.re += b.re;
    a.im += b.im;
    return a;
}

__device__ __forceinline__ float product_plus(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double product_plus(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ u32 product_plus(u32 a, u32 b, u32 c) { return a * b + c; }
__device__ __forceinline__ u64 product_plus(u64 a, u64 b, u64 c) { return a * b + c; }
__device__ __forceinline__ i32 product_plus(i32 a, i32 b, i32 c) { return (i32)((u32)a * (u32)b + (u32)c); }
__device__ __forceinline__ i64 product_plus(i64 a, i64 b, i64 c) { return (i64)((u64)a * (u64)b + (u64)c); }
__device__ __forceinline__ Complex product_plus(Complex a, Complex b, Complex c) {
    c.re = fma(-a.im, b.im, fma(a.re, b.re, c.re));
    c.im = fma(a.im, b.re, fma(a.re, b.im, c.im));
    return c;
}

// Numbers: the sum is a number of the same type.
template <class T>
struct Dot {
    typedef T Right;
    static constexpr int ROWS = sizeof(T) == 16 ? 4 : 8, COLUMNS = sizeof(T) == 4 ? 8 : 4;
    static constexpr int DEPTH = 8, PERIOD = 1;

    T sum;

    static __device__ __forceinline__ T zero_element() { return T(); }
    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.sum = T();
        return dot;
    }
    static __device__ __forceinline__ Right ready(T b) { return b; }
    __device__ __forceinline__ void add(T a, Right b) { sum = product_plus(a, b, sum); }
    __device__ __forceinline__ void settle() {}
    __device__ __forceinline__ T value() const { return sum; }
};

#ifdef DOT_FIELD

// A 31-bit field: F::Sum holds an integer x below p 2^32. Two products of factors up to p added to it are below 2^64,
// and the upper word of the sum is below 2p: one correction serves two products.
template <class F>
struct Dot31 {
    typedef F Right;
    static constexpr int ROWS = 8, COLUMNS = 4, DEPTH = 8, PERIOD = 2;

    typename F::Sum sum;

    static __device__ __forceinline__ F zero_element() { return F::zero(); }
    static __device__ __forceinline__ Right ready(F b) { return b; }
    __device__ __forceinline__ void add(F a, F b) { sum.x += (u64)a.v * b.v; }
    __device__ __forceinline__ void settle() { sum.fold(); }
    __device__ __forceinline__ F value() const { return sum.reduce(); }
};

template <class P>
struct Dot<Monty31<P>> : Dot31<Monty31<P>> {
    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.sum.x = 0;
        return dot;
    }
};
template <>
struct Dot<Mersenne31> : Dot31<Mersenne31> {
    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.sum.x = 0;
        return dot;
    }
};

// An extension of a 31-bit field: a sum for each coefficient.
template <class E>
struct Dot31Extension {
    typedef typename E::Base F;
    static constexpr int DEGREE = E::DEGREE;
    static constexpr int ROWS = 4, COLUMNS = DEGREE == 2 ? 4 : 2, DEPTH = 8, PERIOD = 1;

    typename F::Sum c[DEGREE];

    static __device__ __forceinline__ E zero_element() { return E::zero(); }
    // Coefficient i gains a0 b0 + a1 b1.
    __device__ __forceinline__ void add_two(int i, F a0, F b0, F a1, F b1) {
        c[i].x += (u64)a0.v * b0.v;
        c[i].x += (u64)a1.v * b1.v;
        c[i].fold();
    }
    __device__ __forceinline__ void clear() {
        for (int i = 0; i < DEGREE; ++i) c[i].x = 0;
    }
    __device__ __forceinline__ void settle() {}
    __device__ __forceinline__ E value() const {
        E x;
        for (int i = 0; i < DEGREE; ++i) x.c[i] = c[i].reduce();
        return x;
    }
};

// X^4 = W: w_i is W b_i.
template <class F, u32 W>
struct Dot<Quartic<F, W>> : Dot31Extension<Quartic<F, W>> {
    typedef Quartic<F, W> E;
    struct Right {
        F b0, b1, b2, b3, w1, w2, w3;
    };

    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(const E& b) {
        Right r;
        r.b0 = b.c[0], r.b1 = b.c[1], r.b2 = b.c[2], r.b3 = b.c[3];
        r.w1 = E::times_w(r.b1), r.w2 = E::times_w(r.b2), r.w3 = E::times_w(r.b3);
        return r;
    }
    __device__ __forceinline__ void add(const E& a, const Right& b) {
        this->add_two(0, a.c[0], b.b0, a.c[1], b.w3);
        this->add_two(0, a.c[2], b.w2, a.c[3], b.w1);
        this->add_two(1, a.c[0], b.b1, a.c[1], b.b0);
        this->add_two(1, a.c[2], b.w3, a.c[3], b.w2);
        this->add_two(2, a.c[0], b.b2, a.c[1], b.b1);
        this->add_two(2, a.c[2], b.b0, a.c[3], b.w3);
        this->add_two(3, a.c[0], b.b3, a.c[1], b.b2);
        this->add_two(3, a.c[2], b.b1, a.c[3], b.b0);
    }
};

// i^2 = -1: the right factor's imaginary part is needed with both signs.
template <>
struct Dot<CM31> : Dot31Extension<CM31> {
    struct Right {
        Mersenne31 re, im, minus_im;
    };

    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(const CM31& b) {
        Right r;
        r.re = b.c[0], r.im = b.c[1], r.minus_im = b.c[1].complement();
        return r;
    }
    __device__ __forceinline__ void add(const CM31& a, const Right& b) {
        add_two(0, a.c[0], b.re, a.c[1], b.minus_im);
        add_two(1, a.c[0], b.im, a.c[1], b.re);
    }
};

// Four dot products of length four, as in QM31's own product.
template <>
struct Dot<QM31> : Dot31Extension<QM31> {
    struct Right {
        Mersenne31 e, f, g, h, m, n, minus_f, minus_h, minus_n;
    };

    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(const QM31& b) {
        Right r;
        r.e = b.c[0], r.f = b.c[1], r.g = b.c[2], r.h = b.c[3];
        r.m = r.g.double_() - r.h, r.n = r.h.double_() + r.g;
        r.minus_f = r.f.complement(), r.minus_h = r.h.complement(), r.minus_n = r.n.complement();
        return r;
    }
    __device__ __forceinline__ void add(const QM31& a, const Right& b) {
        add_two(0, a.c[0], b.e, a.c[1], b.minus_f);
        add_two(0, a.c[2], b.m, a.c[3], b.minus_n);
        add_two(1, a.c[0], b.f, a.c[1], b.e);
        add_two(1, a.c[2], b.n, a.c[3], b.m);
        add_two(2, a.c[0], b.g, a.c[1], b.minus_h);
        add_two(2, a.c[2], b.e, a.c[3], b.minus_f);
        add_two(3, a.c[0], b.h, a.c[1], b.g);
        add_two(3, a.c[2], b.f, a.c[3], b.e);
    }
};

// A sum of Goldilocks products, column by column: low + 2^32 middle + 2^64 high, 96 bits each. A product is four
// IMAD.WIDE with carry out, each followed by the addition of the carry; columns are combined only at the end.
struct Columns {
    u32 low[3], middle[3], high[3];

    static __device__ __forceinline__ void add_product(u32 (&sum)[3], u32 a, u32 b) {
#ifndef RIGEL_EMULATED
        asm("{mad.lo.cc.u32 %0, %3, %4, %0; madc.hi.cc.u32 %1, %3, %4, %1; addc.u32 %2, %2, 0;}"
            : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2])
            : "r"(a), "r"(b));
#else
        const u64 product = (u64)a * b, sum64 = join_words(sum[0], sum[1]) + product;
        sum[0] = low_word(sum64), sum[1] = high_word(sum64), sum[2] += sum64 < product;
#endif
    }
    __device__ __forceinline__ void clear() {
        for (int i = 0; i < 3; ++i) low[i] = middle[i] = high[i] = 0;
    }
    __device__ __forceinline__ void add(Goldilocks a, Goldilocks b) {
        const u32 a0 = low_word(a.v), a1 = high_word(a.v), b0 = low_word(b.v), b1 = high_word(b.v);
        add_product(low, a0, b0);
        add_product(middle, a0, b1);
        add_product(high, a1, b1);
        add_product(middle, a1, b0);
    }
    __device__ __forceinline__ Goldilocks reduce() const {
        const u64 word1 = (u64)low[1] + middle[0];
        const u64 word2 = (u64)low[2] + middle[1] + high[0] + high_word(word1);
        const u64 word3 = (u64)middle[2] + high[1] + high_word(word2);
        const u32 word4 = high[2] + high_word(word3);
        return Goldilocks::from_word(Goldilocks::reduce_wide(
            join_words(low[0], low_word(word1)), join_words(low_word(word2), low_word(word3)), word4));
    }
};

template <>
struct Dot<Goldilocks> {
    typedef Goldilocks Right;
    static constexpr int ROWS = 4, COLUMNS = 2, DEPTH = 8, PERIOD = 1;

    Columns sum;

    static __device__ __forceinline__ Goldilocks zero_element() { return Goldilocks::zero(); }
    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.sum.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(Goldilocks b) { return b; }
    __device__ __forceinline__ void add(Goldilocks a, Right b) { sum.add(a, b); }
    __device__ __forceinline__ void settle() {}
    __device__ __forceinline__ Goldilocks value() const { return sum.reduce(); }
};

template <class E>
struct DotGoldilocksExtension {
    static constexpr int DEGREE = E::DEGREE;
    static constexpr int ROWS = 2, COLUMNS = 2, DEPTH = 8, PERIOD = 1;

    Columns c[DEGREE];

    static __device__ __forceinline__ E zero_element() { return E::zero(); }
    __device__ __forceinline__ void clear() {
        for (int i = 0; i < DEGREE; ++i) c[i].clear();
    }
    __device__ __forceinline__ void settle() {}
    __device__ __forceinline__ E value() const {
        E x;
        for (int i = 0; i < DEGREE; ++i) x.c[i] = c[i].reduce();
        return x;
    }
};

// X^2 = W: w1 is W b1.
template <u32 W>
struct Dot<Quadratic<Goldilocks, W>> : DotGoldilocksExtension<Quadratic<Goldilocks, W>> {
    typedef Quadratic<Goldilocks, W> E;
    struct Right {
        Goldilocks b0, b1, w1;
    };

    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(const E& b) {
        Right r;
        r.b0 = b.c[0], r.b1 = b.c[1], r.w1 = E::times_w(b.c[1]);
        return r;
    }
    __device__ __forceinline__ void add(const E& a, const Right& b) {
        this->c[0].add(a.c[0], b.b0);
        this->c[0].add(a.c[1], b.w1);
        this->c[1].add(a.c[0], b.b1);
        this->c[1].add(a.c[1], b.b0);
    }
};

// X^3 = X + 1 and X^4 = X^2 + X.
template <>
struct Dot<Goldilocks3> : DotGoldilocksExtension<Goldilocks3> {
    struct Right {
        Goldilocks b0, b1, b2, b02, b12;
    };

    static __device__ __forceinline__ Dot zero() {
        Dot dot;
        dot.clear();
        return dot;
    }
    static __device__ __forceinline__ Right ready(const Goldilocks3& b) {
        Right r;
        r.b0 = b.c[0], r.b1 = b.c[1], r.b2 = b.c[2], r.b02 = b.c[0] + b.c[2], r.b12 = b.c[1] + b.c[2];
        return r;
    }
    __device__ __forceinline__ void add(const Goldilocks3& a, const Right& b) {
        c[0].add(a.c[0], b.b0);
        c[0].add(a.c[1], b.b2);
        c[0].add(a.c[2], b.b1);
        c[1].add(a.c[0], b.b1);
        c[1].add(a.c[1], b.b02);
        c[1].add(a.c[2], b.b12);
        c[2].add(a.c[0], b.b2);
        c[2].add(a.c[1], b.b1);
        c[2].add(a.c[2], b.b02);
    }
};

#endif
