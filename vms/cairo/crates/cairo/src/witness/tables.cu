// The tables of the memory and their counts. The types are those of row.cuh, which stands above this text.

// The table of addresses: pairs of columns, identifier and count, each for the next `size` addresses from 1 on.
__global__ void address_table(u32* trace, u32 size, u32 chunks, const u32* ids, const u32* counts, u32 addresses) {
    const u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)size * chunks) {
        return;
    }
    const u64 address = index + 1;
    u32* const at = trace + 2 * (index / size) * size + index % size;
    at[0] = address < addresses ? ids[address] : 0;
    at[size] = address < addresses ? counts[address] : 0;
}

// The table of values of WORDS words from number `first` on: LIMBS columns and one of counts. Every pair of limbs is
// looked up in a table of pairs of 9 bits, in one of its first RELATIONS relations.
template <u32 WORDS, u32 LIMBS, u32 RELATIONS>
__global__ void value_table(u32* trace, u32 size, u32 first, const u32* values, const u32* counts, u32 len,
                            u32* tables, u32* status) {
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= size) {
        return;
    }
    const u64 number = (u64)first + index;
    Felt252 value = {};
    if (number < len) {
        for (u32 i = 0; i < WORDS; ++i) {
            value.words[i] = values[WORDS * number + i];
        }
    }
    const Tables counted = {tables, status};
#pragma unroll
    for (u32 limb = 0; limb < LIMBS; limb += 2) {
        const M31 low = value.get_m31(limb), high = value.get_m31(limb + 1);
        trace[(u64)limb * size + index] = low.v;
        trace[(u64)(limb + 1) * size + index] = high.v;
        counted.count(RANGE_CHECK_9_9, limb / 2 % RELATIONS, array(low, high));
    }
    trace[(u64)LIMBS * size + index] = number < len ? counts[number] : 0;
}

// Counts the cells of the public memory.
__global__ void public_memory(const u32* cells, u32 count, const u32* ids, u32 addresses, u32 larges, u32 smalls,
                              u32* address_counts, u32* large_counts, u32* small_counts, u32* status) {
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) {
        return;
    }
    const Memory memory = {ids,    addresses,      nullptr,      larges,       nullptr,
                           smalls, address_counts, large_counts, small_counts, status};
    const M31 address = M31::from(cells[index]);
    memory.count_address(address);
    memory.count_id(memory.id(address));
}

// Adds counts to a column that the host has made.
__global__ void add_counts(u32* column, u32 size, const u32* counts, u32 len) {
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < size && index < len) {
        column[index] += counts[index];
    }
}
