// The functions that the shim and Rust call of each other. `src/shim.rs` declares the same.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Bytes of a buffer that Rust owns.
struct RigelPart {
    void* buffer;
    size_t offset;
    size_t size;
};

// A matrix: a whole buffer of rows * columns values, column after column.
struct RigelMatrix {
    void* buffer;
    size_t rows;
    size_t columns;
};

// The operations of the HAL, implemented in Rust. Each returns whether it succeeded; `error` says what went wrong
// in the last one that failed. Values of the fields are in their stored form.
struct RigelOperations {
    void* state;
    const char* (*error)(void* state);

    void* (*allocate)(void* state, size_t bytes);
    void (*release)(void* state, void* buffer);
    bool (*write)(void* state, RigelPart to, const void* from);
    bool (*read)(void* state, RigelPart from, void* to);  // `to` points to zeros
    bool (*copy)(void* state, RigelPart to, RigelPart from);
    bool (*zero)(void* state, RigelPart part);

    bool (*hash_rows)(void* state, RigelPart digests, RigelMatrix matrix);
    bool (*hash_fold)(void* state, RigelPart parents, RigelPart children);
    bool (*query)(void* state, RigelPart out, RigelMatrix matrix, RigelPart tree, size_t top, size_t index);

    bool (*bit_reverse)(void* state, RigelMatrix matrix);
    bool (*expand)(void* state, RigelMatrix out, RigelMatrix coefficients);
    bool (*interpolate)(void* state, RigelMatrix matrix);
    bool (*shift)(void* state, RigelMatrix matrix);
    bool (*evaluate)(void* state, RigelPart out, RigelMatrix coefficients, RigelPart columns, RigelPart points);

    bool (*combine)(void* state, RigelMatrix combos, RigelMatrix coefficients, RigelPart which, const uint32_t* start,
                    const uint32_t* mix);
    bool (*subtract)(void* state, RigelMatrix combos, RigelPart values, RigelPart infos, const uint32_t* mix);
    bool (*divide)(void* state, RigelMatrix combos, RigelPart infos);
    bool (*finalize)(void* state, RigelMatrix out, RigelMatrix combos);
    bool (*fold)(void* state, RigelMatrix out, RigelMatrix coefficients, const uint32_t* mix);

    bool (*data_witness)(void* state, RigelMatrix data, RigelPart globals, RigelPart rows, RigelPart aux,
                         RigelPart tables);
    bool (*accum_witness)(void* state, RigelMatrix accum, RigelMatrix data, RigelPart globals, RigelPart mix);
    bool (*eval_check)(void* state, RigelMatrix check, RigelMatrix data, RigelMatrix accum, RigelPart globals,
                       RigelPart accum_mix, const uint32_t* mix);
    bool (*synchronize)(void* state);
};

}  // extern "C"
