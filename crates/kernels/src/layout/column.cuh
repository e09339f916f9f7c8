#pragma once

#include "field/word.cuh"

// One column among many of different lengths: 2^log_ratio times shorter than the longest.
struct Column {
    const void* values;
    u64 log_ratio;
};
