#include "hal.h"

#include <cstdlib>
#include <string>

using namespace risc0;

namespace {

// Throws what Rust says about an operation that failed.
void check(const RigelOperations& operations, bool succeeded) {
    if (!succeeded) throw std::runtime_error(operations.error(operations.state));
}

class RigelBuffer : public IBuffer {
  public:
    RigelBuffer(const RigelOperations& operations, size_t bytes)
        : handle(operations.allocate(operations.state, bytes)), operations(operations), bytes(bytes) {
        check(operations, handle != nullptr);
    }
    ~RigelBuffer() override { operations.release(operations.state, handle); }
    size_t size() override { return bytes; }
    void copyFromCpu(size_t offset, const void* data, size_t size) override {
        check(operations, operations.write(operations.state, RigelPart{handle, offset, size}, data));
    }

    void* const handle;

  private:
    const RigelOperations operations;
    const size_t bytes;
};

void* handleOf(const IBufferPtr& buffer) { return static_cast<RigelBuffer*>(buffer.get())->handle; }

const uint32_t* wordsOf(const FpExt& value) { return reinterpret_cast<const uint32_t*>(value.elems); }

class RigelHal : public IHal {
  public:
    explicit RigelHal(const RigelOperations& operations) : rust(operations) {}

    void hashRows(HalArray<Digest> out, HalMatrix<Fp> in) override {
        check(rust, rust.hash_rows(rust.state, part(out), matrix(in)));
    }
    void hashFold(HalArray<Digest> out, HalArray<Digest> in) override {
        check(rust, rust.hash_fold(rust.state, part(out), part(in)));
    }
    void query(HalArray<Fp> out, HalMatrix<Fp> data, HalArray<Digest> tree, size_t top, size_t index) override {
        check(rust, rust.query(rust.state, part(out), matrix(data), part(tree), top, index));
    }
    void batchBitReverse(HalMatrix<Fp> io) override { check(rust, rust.bit_reverse(rust.state, matrix(io))); }
    void batchExpandAndEvaluate(HalMatrix<Fp> out, HalMatrix<Fp> in) override {
        check(rust, rust.expand(rust.state, matrix(out), matrix(in)));
    }
    void batchInterpolate(HalMatrix<Fp> io) override { check(rust, rust.interpolate(rust.state, matrix(io))); }
    void batchShift(HalMatrix<Fp> io) override { check(rust, rust.shift(rust.state, matrix(io))); }
    void batchPolyEval(HalArray<FpExt> out, HalMatrix<Fp> coeffs, HalArray<uint32_t> cols,
                       HalArray<FpExt> xs) override {
        check(rust, rust.evaluate(rust.state, part(out), matrix(coeffs), part(cols), part(xs)));
    }
    void combosMix(HalMatrix<FpExt> combos, HalMatrix<Fp> coeffs, HalArray<uint32_t> which, FpExt cur,
                   FpExt mix) override {
        check(rust,
              rust.combine(rust.state, matrix(combos), matrix(coeffs), part(which), wordsOf(cur), wordsOf(mix)));
    }
    void combosPrep(HalMatrix<FpExt> combos, HalArray<FpExt> eval, HalArray<EvalInfo> info, FpExt mix) override {
        check(rust, rust.subtract(rust.state, matrix(combos), part(eval), part(info), wordsOf(mix)));
    }
    void combosDivide(HalMatrix<FpExt> combos, HalArray<DivideInfo> info) override {
        check(rust, rust.divide(rust.state, matrix(combos), part(info)));
    }
    void combosFinalize(HalMatrix<Fp> out, HalMatrix<FpExt> combos) override {
        check(rust, rust.finalize(rust.state, matrix(out), matrix(combos)));
    }
    void friFold(HalMatrix<Fp> out, HalMatrix<Fp> in, FpExt mix) override {
        check(rust, rust.fold(rust.state, matrix(out), matrix(in), wordsOf(mix)));
    }
    void computeDataWitness(HalMatrix<Fp> data, HalArray<Fp> globals, HalArray<RowInfo> rows, HalArray<uint32_t> aux,
                            HalArray<uint32_t> tables) override {
        check(rust,
              rust.data_witness(rust.state, matrix(data), part(globals), part(rows), part(aux), part(tables)));
    }
    void computeAccumWitness(HalMatrix<Fp> accum, HalMatrix<Fp> data, HalArray<Fp> globals,
                             HalArray<FpExt> mix) override {
        check(rust, rust.accum_witness(rust.state, matrix(accum), matrix(data), part(globals), part(mix)));
    }
    void evalCheck(HalMatrix<Fp> out, HalMatrix<Fp> data, HalMatrix<Fp> accum, HalArray<Fp> globals,
                   HalArray<FpExt> accMix, FpExt mix) override {
        check(rust, rust.eval_check(rust.state, matrix(out), matrix(data), matrix(accum), part(globals),
                                    part(accMix), wordsOf(mix)));
    }
    void sync() override { check(rust, rust.synchronize(rust.state)); }

  protected:
    IBufferPtr allocate(size_t size) override { return std::make_shared<RigelBuffer>(rust, size); }
    void copy(IBufferPtr to, size_t toOffset, IBufferPtr from, size_t fromOffset, size_t size) override {
        const RigelPart source{handleOf(from), fromOffset, size};
        check(rust, rust.copy(rust.state, RigelPart{handleOf(to), toOffset, size}, source));
    }
    void zero(IBufferPtr buffer, size_t offset, size_t size) override {
        check(rust, rust.zero(rust.state, RigelPart{handleOf(buffer), offset, size}));
    }
    void* pin(IBufferPtr buffer, size_t offset, size_t size, bool sync) override {
        void* host = std::calloc(1, size);
        if (host == nullptr) throw std::bad_alloc();
        if (sync && !rust.read(rust.state, RigelPart{handleOf(buffer), offset, size}, host)) {
            std::free(host);
            check(rust, false);
        }
        return host;
    }
    // Called from destructors, where an exception would end the process: a failure is kept for the next operation.
    void unpin(IBufferPtr buffer, void* pinned, size_t offset, size_t size, bool modified) override {
        if (modified) rust.write(rust.state, RigelPart{handleOf(buffer), offset, size}, pinned);
        std::free(pinned);
    }

  private:
    template <class T>
    RigelPart part(HalArray<T>& array) {
        return RigelPart{handleOf(extract(array)), getOffset(array), array.size() * sizeof(T)};
    }
    template <class T>
    RigelMatrix matrix(HalMatrix<T>& values) {
        return RigelMatrix{handleOf(extract(values)), values.rows(), values.cols()};
    }

    const RigelOperations rust;
};

}  // namespace

namespace rigel {

IHalPtr makeHal(const RigelOperations& operations) { return std::make_shared<RigelHal>(operations); }

}  // namespace rigel
