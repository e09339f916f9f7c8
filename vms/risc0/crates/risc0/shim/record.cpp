// Upstream's circuit as expressions: its templates instantiated with a type that records what is done to it.

#include "rv32im/emu/blocks.h"

#include "rv32im/circuit/accum_witgen.h"
#include "rv32im/circuit/verify.h"

#include <cstring>
#include <exception>
#include <string>
#include <vector>

extern "C" {

enum RigelOperation : uint32_t {
    RIGEL_CONSTANT,      // the integer a
    RIGEL_DATA,          // data column a
    RIGEL_ACCUM,         // accumulation column a
    RIGEL_ACCUM_BEFORE,  // accumulation column a, one row before
    RIGEL_GLOBAL,        // global a
    RIGEL_MIX,           // accumulation challenge a, an element of the extension
    RIGEL_POINT,         // the row's point of the domain
    RIGEL_ADD,           // a + b
    RIGEL_SUB,           // a - b
    RIGEL_MUL,           // a b
    RIGEL_NEG,           // -a
    RIGEL_ELEMENT,       // a + b X + c X^2 + d X^3
};

struct RigelNode {
    uint32_t operation, a, b, c, d;
};

// A value that must be zero where `condition`, also a value, is not.
struct RigelConstraint {
    uint32_t value, condition;
};

// A term numerator / denominator of a block type's part of the accumulation, where `selector` is one.
struct RigelTerm {
    uint32_t block, selector, numerator, denominator;
};

struct RigelRecording {
    const RigelNode* nodes;
    size_t node_count;
    const RigelConstraint* constraints;
    size_t constraint_count;
    const RigelTerm* terms;
    size_t term_count;
    // Numbers of columns and values, and the block type of big integers.
    size_t data_columns, accum_columns, argument_columns, globals, mixes, big_integers;
};

}  // extern "C"

namespace {

using namespace risc0;

struct Recording {
    std::vector<RigelNode> nodes;
    std::vector<RigelConstraint> constraints;
    std::vector<RigelTerm> terms;
};

Recording* recording = nullptr;

uint32_t record(RigelOperation operation, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, uint32_t d = 0) {
    recording->nodes.push_back(RigelNode{operation, a, b, c, d});
    return uint32_t(recording->nodes.size() - 1);
}

// A value of the base field. Upstream reads lists of values as arrays of this type, so it is nothing but a number.
struct Recorded {
    uint32_t id;

    Recorded() : Recorded(0u) {}
    Recorded(uint32_t integer) : id(record(RIGEL_CONSTANT, integer)) {}
    Recorded(Fp value) : Recorded(value.asUInt32()) {}
    static Recorded of(uint32_t id) {
        Recorded value(id, true);
        return value;
    }

    Recorded operator+(const Recorded& other) const { return of(record(RIGEL_ADD, id, other.id)); }
    Recorded operator-(const Recorded& other) const { return of(record(RIGEL_SUB, id, other.id)); }
    Recorded operator*(const Recorded& other) const { return of(record(RIGEL_MUL, id, other.id)); }
    Recorded operator-() const { return of(record(RIGEL_NEG, id)); }
    Recorded& operator+=(const Recorded& other) { return *this = *this + other; }
    Recorded& operator-=(const Recorded& other) { return *this = *this - other; }
    Recorded& operator*=(const Recorded& other) { return *this = *this * other; }

  private:
    Recorded(uint32_t id, bool) : id(id) {}
};

// A value of the extension.
struct RecordedExt {
    uint32_t id;

    RecordedExt() : RecordedExt(0u) {}
    explicit RecordedExt(uint32_t integer) : id(record(RIGEL_CONSTANT, integer)) {}
    explicit RecordedExt(Recorded value) : id(value.id) {}
    explicit RecordedExt(Recorded a, Recorded b, Recorded c, Recorded d)
        : id(record(RIGEL_ELEMENT, a.id, b.id, c.id, d.id)) {}
    static RecordedExt of(uint32_t id) {
        RecordedExt value(id, true);
        return value;
    }

    RecordedExt operator+(const RecordedExt& other) const { return of(record(RIGEL_ADD, id, other.id)); }
    RecordedExt operator-(const RecordedExt& other) const { return of(record(RIGEL_SUB, id, other.id)); }
    RecordedExt operator*(const RecordedExt& other) const { return of(record(RIGEL_MUL, id, other.id)); }
    RecordedExt operator*(const Recorded& other) const { return of(record(RIGEL_MUL, id, other.id)); }
    RecordedExt& operator+=(const RecordedExt& other) { return *this = *this + other; }
    RecordedExt& operator*=(const RecordedExt& other) { return *this = *this * other; }
    RecordedExt& operator*=(const Recorded& other) { return *this = *this * other; }

  private:
    RecordedExt(uint32_t id, bool) : id(id) {}
};

struct RecordedReg {
    Recorded get() { return value; }
    template <typename T, typename C>
    void applyInner(C&) {}
    template <typename C>
    void verify(C&) {}
    template <typename C>
    void addArguments(C&) {}

    Recorded value;
};

// Upstream combines constraints by powers of one challenge, in order; of conditions within conditions only their
// products matter. So a state is a list of constraints.
struct ConstraintList {
    using MixStateT = std::vector<RigelConstraint>;
    uint32_t one;

    MixStateT getTrue() { return {}; }
    template <typename Value>
    MixStateT andEqz(MixStateT chain, Value value) {
        chain.push_back(RigelConstraint{value.id, one});
        return chain;
    }
    MixStateT andCond(MixStateT chain, Recorded condition, MixStateT inner) {
        for (const RigelConstraint& constraint : inner) {
            const uint32_t both = constraint.condition == one
                                      ? condition.id
                                      : record(RIGEL_MUL, constraint.condition, condition.id);
            chain.push_back(RigelConstraint{constraint.value, both});
        }
        return chain;
    }
};

// The arguments of one block, as upstream's accumulation calls for them.
struct TermContext {
    using C = TermContext;
    using ValImpl = Recorded;
    using ValExtImpl = RecordedExt;
    using RegImpl = RecordedReg;
    using ArgCountRegImpl = RecordedReg;

    uint32_t block;
    Recorded selector;
    Recorded isValid;
    Recorded* globals;
    RecordedExt* accMix;
    Recorded x;

    template <typename T>
    void push(const T& argument) {
        addArgument(isValid, argument);
    }
    template <typename T>
    void pull(const T& argument) {
        addArgument(-isValid, argument);
    }
    template <typename T>
    void addArgument(Recorded count, const T& argument) {
        const RecordedExt denominator = accMix[0] - flattenArgument<T, C>(argument, accMix + 1);
        recording->terms.push_back(RigelTerm{block, selector.id, count.id, denominator.id});
    }
    Recorded globalGet(uint32_t offset) { return globals[offset]; }
    Recorded getX() { return x; }
};

std::vector<RecordedReg> registers(RigelOperation operation, size_t count) {
    std::vector<RecordedReg> values(count);
    for (size_t i = 0; i < count; ++i) values[i].value = Recorded::of(record(operation, uint32_t(i)));
    return values;
}

void recordAll(size_t dataColumns, size_t accumColumns) {
    auto data = registers(RIGEL_DATA, dataColumns);
    auto accum = registers(RIGEL_ACCUM, accumColumns), before = registers(RIGEL_ACCUM_BEFORE, accumColumns);
    std::vector<Recorded> globals(NUM_GLOBALS);
    for (size_t i = 0; i < globals.size(); ++i) globals[i] = Recorded::of(record(RIGEL_GLOBAL, uint32_t(i)));
    std::vector<RecordedExt> mix(ACCUM_MIX_SIZE);
    for (size_t i = 0; i < mix.size(); ++i) mix[i] = RecordedExt::of(record(RIGEL_MIX, uint32_t(i)));
    const Recorded x = Recorded::of(record(RIGEL_POINT));

    ConstraintList list{record(RIGEL_CONSTANT, 1)};
    recording->constraints = verifyCircuitCtx<RecordedReg, Recorded, RecordedExt, ConstraintList>(
        list, data.data(), accum.data(), before.data(), globals.data(), mix.data(), x);

    auto top = reinterpret_cast<Top<TermContext>*>(data.data());
#define BLOCK_TYPE(name, count)                                                                           \
    {                                                                                                     \
        const uint32_t block = uint32_t(BlockType::name);                                                 \
        TermContext context{block, top->select.at(block), Recorded(1u), globals.data(), mix.data(), x};   \
        for (size_t i = 0; i < count; ++i) {                                                              \
            context.isValid = top->mux.name.isValid[i].get();                                             \
            AddArgumentsFwd::apply(context, top->mux.name.data[i]);                                       \
        }                                                                                                 \
    }
    BLOCK_TYPES
#undef BLOCK_TYPE
}

std::string failure;

}  // namespace

extern "C" {

// Records the circuit. The result is valid until the next call; nothing else may run meanwhile. Returns what went
// wrong, or null.
const char* rigel_risc0_record(RigelRecording* out) {
    static Recording last;
    try {
        last = Recording();
        recording = &last;
        const size_t dataColumns = rv32im::computeMaxDataPerRow(), accumColumns = rv32im::computeTotalAccum();
        recordAll(dataColumns, accumColumns);
        *out = RigelRecording{last.nodes.data(), last.nodes.size(), last.constraints.data(), last.constraints.size(),
                              last.terms.data(), last.terms.size(), dataColumns, accumColumns,
                              rv32im::computeMaxAccumPerRow(), NUM_GLOBALS, ACCUM_MIX_SIZE,
                              size_t(BlockType::BigInt)};
        return nullptr;
    } catch (const std::exception& error) {
        failure = error.what();
    }
    return failure.c_str();
}

// Upstream's own evaluation of the constraints at a point: columns of the extension in place of rows of the base field.
// `values` are the data columns, then the accumulation columns, where those that are also read one row before are
// followed by that value.
void rigel_risc0_constraints_at(const uint32_t* values, const uint32_t* globals, const uint32_t* accumMix,
                                const uint32_t* mix, const uint32_t* z, uint32_t* out) {
    FpExt ecMix, point;
    std::memcpy(&ecMix, mix, sizeof(FpExt));
    std::memcpy(&point, z, sizeof(FpExt));
    const FpExt result = rv32im::computeConstraintPoly(reinterpret_cast<const FpExt*>(values),
                                                       reinterpret_cast<const Fp*>(globals),
                                                       reinterpret_cast<const FpExt*>(accumMix), ecMix, point);
    std::memcpy(out, &result, sizeof(FpExt));
}

}  // extern "C"
