// Every operation of the HAL that takes any values, on random ones, beside upstream's CPU HAL.

#include "hal.h"
#include "hal/dual/dual.h"
#include "rv32im/base/constants.h"
#include "rv32im/emu/blocks.h"
#include "zkp/params.h"

#include <random>
#include <string>

using namespace risc0;

namespace {

class Comparison {
  public:
    Comparison(IHalPtr hal, uint32_t seed) : hal(hal), generator(seed) {}

    // All operations but those of the circuit, on columns of `rows` rows.
    void operations(size_t rows, size_t columns) {
        HalMatrix<Fp> values = matrix(rows, columns);
        hal->batchInterpolate(values);
        hal->batchShift(values);
        auto expanded = hal->allocateMatrix<Fp>(kExpansionFactor * rows, columns);
        hal->batchExpandAndEvaluate(expanded, values);
        commit(expanded);
        hal->batchBitReverse(values);

        const FpExt mix = element();
        auto combos = hal->allocateMatrix<FpExt>(rows, COMBOS);
        hal->zero(combos);
        const size_t count = 2 * columns;
        hal->batchPolyEval(hal->allocateArray<FpExt>(count), values, numbers(count, columns), elements(count));
        hal->combosMix(combos, values, numbers(columns, COMBOS), element(), mix);
        hal->combosPrep(combos, elements(count), infos(count), mix);
        divide(rows);

        auto polynomial = hal->allocateMatrix<Fp>(rows, kExtSize);
        hal->combosFinalize(polynomial, combos);
        hal->batchBitReverse(polynomial);
        hal->friFold(hal->allocateMatrix<Fp>(rows / kFriFold, kExtSize), polynomial, mix);
    }

    // The constraints, which on a proof's own columns are zero nearly everywhere.
    void constraints(size_t rows) {
        auto data = matrix(kExpansionFactor * rows, rv32im::computeMaxDataPerRow());
        auto accum = matrix(kExpansionFactor * rows, rv32im::computeTotalAccum());
        auto globals = hal->allocateArray<Fp>(NUM_GLOBALS);
        {
            PinnedArrayWO<Fp> pinned(hal, globals);
            for (size_t i = 0; i < pinned.size(); ++i) pinned[i] = value();
        }
        auto check = hal->allocateMatrix<Fp>(kExpansionFactor * rows, kExtSize);
        hal->evalCheck(check, data, accum, globals, elements(ACCUM_MIX_SIZE), element());
    }

  private:
    static constexpr size_t COMBOS = 3;

    void commit(HalMatrix<Fp> values) {
        const size_t rows = values.rows();
        auto tree = hal->allocateArray<Digest>(2 * rows);
        hal->hashRows(tree.slice(rows, rows), values);
        size_t levels = 0;
        for (size_t size = rows; size > 1; size /= 2, ++levels) {
            hal->hashFold(tree.slice(size / 2, size / 2), tree.slice(size, size));
        }
        auto answer = hal->allocateArray<Fp>((levels - 1) * 8 + values.cols());
        for (size_t index : {size_t(0), rows / 3, rows - 1}) hal->query(answer, values, tree, 2, index);
    }

    // Upstream divides without remainder only: q (X - z).
    void divide(size_t rows) {
        auto products = hal->allocateMatrix<FpExt>(rows, COMBOS);
        auto infos = hal->allocateArray<DivideInfo>(COMBOS);
        {
            PinnedMatrixWO<FpExt> pinned(hal, products);
            PinnedArrayWO<DivideInfo> info(hal, infos);
            for (size_t combo = 0; combo < COMBOS; ++combo) {
                info[combo] = DivideInfo{uint32_t(combo), element()};
                FpExt below(0);
                for (size_t i = 0; i < rows; ++i) {
                    const FpExt here = i + 1 < rows ? element() : FpExt(0);
                    pinned(i, combo) = below - here * info[combo].z;
                    below = here;
                }
            }
        }
        hal->combosDivide(products, infos);
    }

    Fp value() { return Fp(uint32_t(generator())); }
    FpExt element() { return FpExt(value(), value(), value(), value()); }
    HalMatrix<Fp> matrix(size_t rows, size_t columns) {
        auto made = hal->allocateMatrix<Fp>(rows, columns);
        PinnedMatrixWO<Fp> pinned(hal, made);
        for (size_t i = 0; i < pinned.size(); ++i) pinned[i] = value();
        return made;
    }
    HalArray<FpExt> elements(size_t count) {
        auto made = hal->allocateArray<FpExt>(count);
        PinnedArrayWO<FpExt> pinned(hal, made);
        for (size_t i = 0; i < count; ++i) pinned[i] = element();
        return made;
    }
    HalArray<uint32_t> numbers(size_t count, size_t below) {
        auto made = hal->allocateArray<uint32_t>(count);
        PinnedArrayWO<uint32_t> pinned(hal, made);
        for (size_t i = 0; i < count; ++i) pinned[i] = uint32_t(generator() % below);
        return made;
    }
    HalArray<EvalInfo> infos(size_t count) {
        auto made = hal->allocateArray<EvalInfo>(count);
        PinnedArrayWO<EvalInfo> pinned(hal, made);
        for (size_t i = 0; i < count; ++i) {
            pinned[i] = EvalInfo{uint32_t(i / 4), uint32_t(i / 2), uint32_t(i % COMBOS), uint32_t(i % 2)};
        }
        return made;
    }

    IHalPtr hal;
    std::mt19937 generator;
};

std::string failure;

}  // namespace

// Returns what went wrong, or null; one thread at a time.
extern "C" const char* rigel_risc0_compare(const RigelOperations* operations, uint32_t seed) {
    try {
        Comparison comparison(getDualHal(getCpuHal(), rigel::makeHal(*operations)), seed);
        comparison.operations(1 << 8, 5);
        comparison.operations(1 << 10, 33);
        comparison.constraints(1 << 12);
        return nullptr;
    } catch (const std::exception& error) {
        failure = error.what();
    }
    return failure.c_str();
}
