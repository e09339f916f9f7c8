#pragma once

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"
#include "field/mersenne31.cuh"

// Extensions as polynomials over a base field, lowest coefficient first. This CRTP base, with the concrete type `Self`,
// has what does not depend on the modulus; a concrete type adds its product, square and inverse.
template <class Self, class F, int D>
struct Coefficients {
    typedef F Base;
    static constexpr int DEGREE = D;

    F c[D];

    static __device__ __forceinline__ Self zero() { return from_base(F::zero()); }
    static __device__ __forceinline__ Self one() { return from_base(F::one()); }
    static __device__ __forceinline__ Self from_base(F constant) {
        Self x;
        x.c[0] = constant;
        for (int i = 1; i < D; ++i) x.c[i] = F::zero();
        return x;
    }

    __device__ __forceinline__ Self operator+(const Self& other) const {
        Self x;
        for (int i = 0; i < D; ++i) x.c[i] = c[i] + other.c[i];
        return x;
    }
    __device__ __forceinline__ Self operator-(const Self& other) const {
        Self x;
        for (int i = 0; i < D; ++i) x.c[i] = c[i] - other.c[i];
        return x;
    }
    __device__ __forceinline__ Self operator-() const {
        Self x;
        for (int i = 0; i < D; ++i) x.c[i] = -c[i];
        return x;
    }
    __device__ __forceinline__ Self double_() const { return self() + self(); }
    __device__ __forceinline__ Self halve() const {
        Self x;
        for (int i = 0; i < D; ++i) x.c[i] = c[i].halve();
        return x;
    }

    __device__ __forceinline__ Self operator+(F constant) const {
        Self x = self();
        x.c[0] += constant;
        return x;
    }
    __device__ __forceinline__ Self operator-(F constant) const {
        Self x = self();
        x.c[0] -= constant;
        return x;
    }
    __device__ __forceinline__ Self operator*(F scalar) const {
        Self x;
        for (int i = 0; i < D; ++i) x.c[i] = c[i] * scalar;
        return x;
    }
    friend __device__ __forceinline__ Self operator+(F constant, const Self& x) { return x + constant; }
    friend __device__ __forceinline__ Self operator-(F constant, const Self& x) { return -x + constant; }
    friend __device__ __forceinline__ Self operator*(F scalar, const Self& x) { return x * scalar; }

    __device__ __forceinline__ bool operator==(const Self& other) const {
        bool equal = true;
        for (int i = 0; i < D; ++i) equal = equal && c[i] == other.c[i];
        return equal;
    }

    // A sum of (extension element) x (base element), each coefficient reduced once at the end.
    struct Sum {
        typename F::Sum c[D];

        static __device__ __forceinline__ Sum zero() {
            Sum s;
            for (int i = 0; i < D; ++i) s.c[i] = F::Sum::zero();
            return s;
        }
        __device__ __forceinline__ Sum& mul_add(const Self& a, F b) {
            for (int i = 0; i < D; ++i) c[i].mul_add(a.c[i], b);
            return *this;
        }
        __device__ __forceinline__ Sum& add(const Self& a) {
            for (int i = 0; i < D; ++i) c[i].add(a.c[i]);
            return *this;
        }
        __device__ __forceinline__ Sum& operator+=(const Sum& other) {
            for (int i = 0; i < D; ++i) c[i] += other.c[i];
            return *this;
        }
        __device__ __forceinline__ Self reduce() const {
            Self x;
            for (int i = 0; i < D; ++i) x.c[i] = c[i].reduce();
            return x;
        }
    };

  private:
    __device__ __forceinline__ const Self& self() const { return *static_cast<const Self*>(this); }
};

// The operators of `Coefficients` that a concrete type's own operators would hide.
#define RIGEL_EXTENSION_OPERATORS(Self, Parent)                                                                \
    using Parent::operator+;                                                                                   \
    using Parent::operator-;                                                                                   \
    using Parent::operator*;                                                                                   \
    RIGEL_DERIVED_OPERATORS(Self)                                                                              \
    __device__ __forceinline__ Self& operator*=(typename Parent::Base scalar) {                                \
        return *this = *this * scalar;                                                                         \
    }

// F modulo X^2 - W, for a small integer W.
template <class F, u32 W>
struct Quadratic : Coefficients<Quadratic<F, W>, F, 2> {
    typedef Coefficients<Quadratic, F, 2> Parent;
    using Parent::c;

    static __device__ __forceinline__ F times_w(F x) { return x.times_small(W); }

    __device__ __forceinline__ Quadratic operator*(const Quadratic& other) const {
        Quadratic x;
        x.c[0] = F::dot(c[0], other.c[0], c[1], times_w(other.c[1]));
        x.c[1] = F::dot(c[0], other.c[1], c[1], other.c[0]);
        return x;
    }
    RIGEL_EXTENSION_OPERATORS(Quadratic, Parent)

    __device__ __forceinline__ Quadratic square() const {
        Quadratic x;
        x.c[0] = F::dot(c[0], c[0], c[1], times_w(c[1]));
        x.c[1] = (c[0] * c[1]).double_();
        return x;
    }
    // The conjugate a0 - a1 X over the norm a0^2 - W a1^2; zero for zero.
    __device__ __forceinline__ Quadratic inverse() const {
        const F norm = F::dot(c[0], c[0], c[1], -times_w(c[1]));
        const F scale = norm.inverse();
        Quadratic x;
        x.c[0] = c[0] * scale;
        x.c[1] = -c[1] * scale;
        return x;
    }
};

// F modulo X^4 - W, for an integer W. A product is four dot products of length four.
template <class F, u32 W>
struct Quartic : Coefficients<Quartic<F, W>, F, 4> {
    typedef Coefficients<Quartic, F, 4> Parent;
    using Parent::c;

    static __device__ __forceinline__ F times_w(F x) {
        return W == 3 ? x.double_() + x : x * F::from_integer(W);
    }

    __device__ __forceinline__ Quartic operator*(const Quartic& other) const {
        const F b0 = other.c[0], b1 = other.c[1], b2 = other.c[2], b3 = other.c[3];
        const F w1 = times_w(b1), w2 = times_w(b2), w3 = times_w(b3);
        Quartic x;
        x.c[0] = F::dot(c[0], b0, c[1], w3, c[2], w2, c[3], w1);
        x.c[1] = F::dot(c[0], b1, c[1], b0, c[2], w3, c[3], w2);
        x.c[2] = F::dot(c[0], b2, c[1], b1, c[2], b0, c[3], w3);
        x.c[3] = F::dot(c[0], b3, c[1], b2, c[2], b1, c[3], b0);
        return x;
    }
    RIGEL_EXTENSION_OPERATORS(Quartic, Parent)

    __device__ __forceinline__ Quartic square() const { return *this * *this; }
    // The product with X.
    __device__ __forceinline__ Quartic times_x() const {
        Quartic x;
        x.c[0] = times_w(c[3]);
        x.c[1] = c[0];
        x.c[2] = c[1];
        x.c[3] = c[2];
        return x;
    }

    // 1 / a through the tower Y = X^2: with a = A + B X for A, B over Y, it is (A - B X) / (A^2 - Y B^2), and
    // the norm n0 + n1 Y has the inverse (n0 - n1 Y) / (n0^2 - W n1^2). Zero for zero.
    __device__ __forceinline__ Quartic inverse() const {
        const F z = F::zero(), w3 = times_w(c[3]);
        const F n0 = F::dot(c[0], c[0], c[2], times_w(c[2]), c[1], -w3.double_(), z, z);
        const F n1 = F::dot(c[0], c[2].double_(), c[1], -c[1], c[3], -w3, z, z);
        const F scale = F::dot(n0, n0, n1, -times_w(n1), z, z, z, z).inverse();
        const F m0 = n0 * scale, m1 = -n1 * scale, wm1 = times_w(m1);
        Quartic x;
        x.c[0] = F::dot(c[0], m0, c[2], wm1, z, z, z, z);
        x.c[1] = -F::dot(c[1], m0, c[3], wm1, z, z, z, z);
        x.c[2] = F::dot(c[2], m0, c[0], m1, z, z, z, z);
        x.c[3] = -F::dot(c[3], m0, c[1], m1, z, z, z, z);
        return x;
    }
};

typedef Quartic<BabyBear, 11> BabyBear4;
// RISC Zero's extension, modulo X^4 + 11: W = p - 11.
typedef Quartic<BabyBear, BabyBear::MODULUS - 11> RiscZero4;
typedef Quartic<KoalaBear, 3> KoalaBear4;
typedef Quadratic<Goldilocks, 7> Goldilocks2;

// Goldilocks modulo X^3 - X - 1.
struct Goldilocks3 : Coefficients<Goldilocks3, Goldilocks, 3> {
    typedef Coefficients<Goldilocks3, Goldilocks, 3> Parent;
    typedef Goldilocks F;

    // X^3 = X + 1 and X^4 = X^2 + X fold the upper coefficients d3 and d4 of the product.
    __device__ __forceinline__ Goldilocks3 operator*(const Goldilocks3& other) const {
        const F a0 = c[0], a1 = c[1], a2 = c[2], b0 = other.c[0], b1 = other.c[1], b2 = other.c[2];
        const F::Sum d3 = F::Sum::zero().mul_add(a1, b2).mul_add(a2, b1);
        const F::Sum d4 = F::Sum::zero().mul_add(a2, b2);
        Goldilocks3 x;
        x.c[0] = (F::Sum::zero().mul_add(a0, b0) += d3).reduce();
        x.c[1] = ((F::Sum::zero().mul_add(a0, b1).mul_add(a1, b0) += d3) += d4).reduce();
        x.c[2] = (F::Sum::zero().mul_add(a0, b2).mul_add(a1, b1).mul_add(a2, b0) += d4).reduce();
        return x;
    }
    RIGEL_EXTENSION_OPERATORS(Goldilocks3, Parent)

    __device__ __forceinline__ Goldilocks3 square() const { return *this * *this; }

    // The first column of the inverse of the matrix of multiplication by a, rows (a0, a2, a1),
    // (a1, a0 + a2, a1 + a2), (a2, a1, a0 + a2): the cofactors of its first row over its determinant.
    __device__ __forceinline__ Goldilocks3 inverse() const {
        const F a0 = c[0], a1 = c[1], a2 = c[2], a02 = a0 + a2, a12 = a1 + a2;
        Goldilocks3 cofactors;
        cofactors.c[0] = F::dot(a02, a02, -a12, a1);
        cofactors.c[1] = F::dot(a12, a2, -a1, a02);
        cofactors.c[2] = F::dot(a1, a1, -a02, a2);
        const F determinant = F::Sum::zero()
                                  .mul_add(a0, cofactors.c[0])
                                  .mul_add(a2, cofactors.c[1])
                                  .mul_add(a1, cofactors.c[2])
                                  .reduce();
        return cofactors * determinant.inverse();
    }
};

// The complex extension of Mersenne-31: i^2 = -1.
struct CM31 : Coefficients<CM31, Mersenne31, 2> {
    typedef Coefficients<CM31, Mersenne31, 2> Parent;
    typedef Mersenne31 F;

    static __device__ __forceinline__ CM31 from_parts(F real, F imaginary) {
        CM31 x;
        x.c[0] = real;
        x.c[1] = imaginary;
        return x;
    }

    __device__ __forceinline__ CM31 operator*(const CM31& other) const {
        const F z = F::zero();
        return from_parts(F::dot(c[0], other.c[0], c[1], other.c[1].complement(), z, z, z, z),
                          F::dot(c[0], other.c[1], c[1], other.c[0], z, z, z, z));
    }
    RIGEL_EXTENSION_OPERATORS(CM31, Parent)

    // (a + bi)^2 = (a + b)(a - b) + 2ab i.
    __device__ __forceinline__ CM31 square() const {
        return from_parts((c[0] + c[1]) * (c[0] - c[1]), c[0] * c[1].double_());
    }
    __device__ __forceinline__ CM31 conjugate() const { return from_parts(c[0], -c[1]); }
    // The conjugate over the norm a^2 + b^2; zero for zero.
    __device__ __forceinline__ CM31 inverse() const {
        const F z = F::zero();
        return conjugate() * F::dot(c[0], c[0], c[1], c[1], z, z, z, z).inverse();
    }
};

// Stwo's secure field: (c0 + c1 i) + (c2 + c3 i) u over CM31, with u^2 = 2 + i.
struct QM31 : Coefficients<QM31, Mersenne31, 4> {
    typedef Coefficients<QM31, Mersenne31, 4> Parent;
    typedef Mersenne31 F;

    static __device__ __forceinline__ QM31 from_halves(CM31 low, CM31 high) {
        QM31 x;
        x.c[0] = low.c[0];
        x.c[1] = low.c[1];
        x.c[2] = high.c[0];
        x.c[3] = high.c[1];
        return x;
    }
    __device__ __forceinline__ CM31 low() const { return CM31::from_parts(c[0], c[1]); }
    __device__ __forceinline__ CM31 high() const { return CM31::from_parts(c[2], c[3]); }

    // Four dot products of length four: (2 + i)(g + h i) = (2g - h) + (2h + g) i =: m + n i.
    __device__ __forceinline__ QM31 operator*(const QM31& other) const {
        const F e = other.c[0], f = other.c[1], g = other.c[2], h = other.c[3];
        const F m = g.double_() - h, n = h.double_() + g;
        QM31 x;
        x.c[0] = F::dot(c[0], e, c[1], f.complement(), c[2], m, c[3], n.complement());
        x.c[1] = F::dot(c[0], f, c[1], e, c[2], n, c[3], m);
        x.c[2] = F::dot(c[0], g, c[1], h.complement(), c[2], e, c[3], f.complement());
        x.c[3] = F::dot(c[0], h, c[1], g, c[2], f, c[3], e);
        return x;
    }
    RIGEL_EXTENSION_OPERATORS(QM31, Parent)

    __device__ __forceinline__ QM31 operator*(const CM31& scalar) const {
        return from_halves(low() * scalar, high() * scalar);
    }
    __device__ __forceinline__ QM31 square() const { return *this * *this; }
    // The conjugate A - B u over the norm A^2 - (2 + i) B^2; zero for zero.
    __device__ __forceinline__ QM31 inverse() const {
        const CM31 b2 = high().square();
        const CM31 rb2 = CM31::from_parts(b2.c[0].double_() - b2.c[1], b2.c[1].double_() + b2.c[0]);
        const CM31 scale = (low().square() - rb2).inverse();
        return from_halves(low() * scale, -(high() * scale));
    }
};
