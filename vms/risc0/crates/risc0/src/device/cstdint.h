// The integers of <cstdint>, which NVRTC does not have.
#pragma once

#ifdef RIGEL_EMULATED
#include_next <cstdint>
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define UINT32_MAX 0xffffffffu
#endif
