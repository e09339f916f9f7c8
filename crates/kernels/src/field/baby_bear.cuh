#pragma once

#include "field/monty31.cuh"

// BabyBear: p = 2^31 - 2^27 + 1, in Montgomery form.
struct BabyBearParameters {
    static constexpr u32 MODULUS = 0x78000001;
    static constexpr u32 NEGATIVE_INVERSE = 0x77ffffff;
    static constexpr u32 R1 = 0x0ffffffe;
    static constexpr u32 R2 = 0x45dddde3;
    static constexpr int TWO_ADICITY = 27;
    static constexpr int RUN = 3;
    static constexpr int RUNS = 9;
};

typedef Monty31<BabyBearParameters> BabyBear;
