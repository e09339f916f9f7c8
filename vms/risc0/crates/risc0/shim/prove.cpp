// Upstream's prover over a HAL of Rust's, and upstream's CPU code for the witness.

#include "hal.h"
#include "hal/dual/dual.h"
#include "prove/rv32im.h"
#include "verify/rv32im.h"
#include "zkp/rou.h"

#include <exception>
#include <string>

using namespace risc0;

namespace risc0 {

// Defined in upstream's hal/cpu.
void computeDataWitnessCpu(Fp* data, Fp* globals, const RowInfo* rows, const uint32_t* aux, uint32_t* tables,
                           size_t numRows);
void computeAccumWitnessCpu(Fp* accum, const Fp* data, const Fp* globals, const FpExt* mix, size_t numRows);

// Upstream's ffi.cpp refers to it; nothing here calls it, because a prover is made with its HAL.
IHalPtr getGpuHal() { throw std::runtime_error("rigel-risc0 makes provers by rigel_risc0_prover_new"); }

}  // namespace risc0

namespace {

thread_local std::string lastError;

// Runs `work`; an exception becomes the last error.
template <class Work>
bool guarded(Work&& work) noexcept {
    try {
        work();
        return true;
    } catch (const std::exception& error) {
        lastError = error.what();
    } catch (...) {
        lastError = "an exception of an unknown type";
    }
    return false;
}

struct RigelProver {
    RigelProver(IHalPtr hal, size_t po2) : prover(hal, po2) {}
    Rv32imProver prover;
    std::vector<Fp> transcript;
};

}  // namespace

// As upstream's ffi.cpp declares it.
struct PreflightContext {
    PreflightResultsPtr results;
    bool isFinal;
};

extern "C" {

struct RigelPreflight {
    const void* rows;
    size_t row_bytes;
    const void* aux;
    size_t aux_bytes;
    uint32_t cycles;
    const uint32_t* block_counts;
    size_t block_types;
};

const char* rigel_risc0_last_error() { return lastError.c_str(); }

// What a preflight has found; the pointers are its own.
void rigel_risc0_preflight(const PreflightContext* context, RigelPreflight* out) {
    const PreflightResults& results = *context->results;
    out->rows = results.rowInfo.data();
    out->row_bytes = results.rowInfo.size() * sizeof(RowInfo);
    out->aux = results.aux.data();
    out->aux_bytes = results.aux.size() * sizeof(uint32_t);
    out->cycles = results.cycles;
    out->block_counts = results.block_counts;
    out->block_types = NUM_BLOCK_TYPES;
}

// A prover for segments of 2^po2 rows over Rust's operations. With `compare`, upstream's CPU HAL runs beside them, and
// every result is compared.
RigelProver* rigel_risc0_prover_new(const RigelOperations* operations, size_t po2, bool compare) {
    RigelProver* prover = nullptr;
    guarded([&] {
        IHalPtr hal = rigel::makeHal(*operations);
        if (compare) hal = getDualHal(getCpuHal(), hal);
        prover = new RigelProver(hal, po2);
    });
    return prover;
}

// The same with upstream's CPU HAL alone.
RigelProver* rigel_risc0_prover_new_cpu(size_t po2) {
    RigelProver* prover = nullptr;
    guarded([&] { prover = new RigelProver(getCpuHal(), po2); });
    return prover;
}

void rigel_risc0_prover_free(RigelProver* prover) { delete prover; }

bool rigel_risc0_prove(RigelProver* prover, const PreflightContext* preflight) {
    return guarded([&] {
        WriteIop iop;
        iop.write(RV32IM_SEAL_VERSION);
        iop.write(uint32_t(prover->prover.po2()));
        prover->prover.prove(iop, *preflight->results);
        prover->transcript = iop.getTranscript();
    });
}

// The seal; its words are the prover's until the next proof.
uint32_t* rigel_risc0_seal(RigelProver* prover, size_t* words) {
    *words = prover->transcript.size();
    return reinterpret_cast<uint32_t*>(prover->transcript.data());
}

// Upstream's CPU code for the data columns; all values are in host memory, and `data` is zero before.
bool rigel_risc0_data_witness(uint32_t* data, uint32_t* globals, const void* rows, const uint32_t* aux,
                              uint32_t* tables, size_t count) {
    return guarded([&] {
        computeDataWitnessCpu(reinterpret_cast<Fp*>(data), reinterpret_cast<Fp*>(globals),
                              static_cast<const RowInfo*>(rows), aux, tables, count);
    });
}

// Upstream's CPU code for the accumulation columns, before the running sum of the first four.
bool rigel_risc0_accum_witness(uint32_t* accum, const uint32_t* data, const uint32_t* globals, const uint32_t* mix,
                               size_t count) {
    return guarded([&] {
        computeAccumWitnessCpu(reinterpret_cast<Fp*>(accum), reinterpret_cast<const Fp*>(data),
                               reinterpret_cast<const Fp*>(globals), reinterpret_cast<const FpExt*>(mix), count);
    });
}

}  // extern "C"
