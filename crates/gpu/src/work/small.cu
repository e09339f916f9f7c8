// Copies of a few words between host and device.

template <unsigned N>
struct Words {
    unsigned words[N];
};

// The first `count` words.
template <unsigned N>
__global__ void __launch_bounds__(N) write_words(unsigned* to, Words<N> from, unsigned count) {
    if (threadIdx.x < count) to[threadIdx.x] = from.words[threadIdx.x];
}

// Copies words to `to` in the host's memory, and then sets the host's word at `arrived`.
__global__ void deliver(const unsigned* from, unsigned count, unsigned long long to, unsigned long long arrived) {
    volatile unsigned* const out = (volatile unsigned*)to;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[i] = from[i];
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence_system();
    *(volatile unsigned*)arrived = 1;
}
