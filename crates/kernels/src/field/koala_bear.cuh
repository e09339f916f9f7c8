#pragma once

#include "field/monty31.cuh"

// KoalaBear: p = 2^31 - 2^24 + 1, in Montgomery form.
struct KoalaBearParameters {
    static constexpr u32 MODULUS = 0x7f000001;
    static constexpr u32 NEGATIVE_INVERSE = 0x7effffff;
    static constexpr u32 R1 = 0x01fffffe;
    static constexpr u32 R2 = 0x17f7efe4;
    static constexpr int TWO_ADICITY = 24;
    static constexpr int RUN = 6;
    static constexpr int RUNS = 4;
};

typedef Monty31<KoalaBearParameters> KoalaBear;
