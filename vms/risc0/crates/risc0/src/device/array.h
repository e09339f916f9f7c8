// The parts of <array> that upstream's circuit uses, which NVRTC does not have.
#pragma once

#ifdef RIGEL_EMULATED
#include_next <array>
#else
namespace std {
template <class T, size_t N>
struct array {
    T values[N];
    __device__ constexpr T& operator[](size_t i) { return values[i]; }
    __device__ constexpr const T& operator[](size_t i) const { return values[i]; }
    __device__ constexpr size_t size() const { return N; }
    __device__ constexpr T* data() { return values; }
    __device__ constexpr const T* data() const { return values; }
};
}  // namespace std
#endif
