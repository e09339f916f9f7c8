#include "guest.h"

uint32_t guest_call(uint32_t* to, uint32_t size, const char* name, uint32_t a3, uint32_t a4, uint32_t a5,
                    uint32_t number);
void guest_halt(uint32_t how, const uint32_t* output) __attribute__((noreturn));

enum { CALL_PANIC = 9, CALL_READ = 12, CALL_WRITE = 16, STDIN = 0, JOURNAL = 3 };

void* memset(void* to, int byte, size_t size) {
    for (size_t i = 0; i < size; ++i) ((uint8_t*)to)[i] = (uint8_t)byte;
    return to;
}

void* memcpy(void* to, const void* from, size_t size) {
    for (size_t i = 0; i < size; ++i) ((uint8_t*)to)[i] = ((const uint8_t*)from)[i];
    return to;
}

size_t guest_read(void* to, size_t size) {
    return guest_call(to, size, "risc0_zkvm_platform::syscall::nr::SYS_READ", STDIN, size, 0, CALL_READ);
}

// SHA-256 that takes its input in pieces.
typedef struct {
    uint32_t state[8];
    uint8_t block[64];
    uint32_t used;
    uint64_t length;
} Sha256;

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static void sha256_begin(Sha256* hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->used = 0;
    hash->length = 0;
}

static void sha256_block(Sha256* hash) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; ++i) {
        const uint8_t* b = hash->block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; ++i) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, hash->state, sizeof s);
    // Eight rounds at a time, so that the eight words stay where they are and only change their roles.
    for (int i = 0; i < 64; i += 8) {
#define ROUND(a, b, c, d, e, f, g, h, k)                                                              \
    {                                                                                                 \
        const uint32_t t = s[h] + (rotate(s[e], 6) ^ rotate(s[e], 11) ^ rotate(s[e], 25)) +           \
                           ((s[e] & s[f]) ^ (~s[e] & s[g])) + ROUNDS[i + k] + w[i + k];               \
        s[d] += t;                                                                                    \
        s[h] = t + (rotate(s[a], 2) ^ rotate(s[a], 13) ^ rotate(s[a], 22)) +                          \
               ((s[a] & s[b]) ^ (s[a] & s[c]) ^ (s[b] & s[c]));                                       \
    }
        ROUND(0, 1, 2, 3, 4, 5, 6, 7, 0)
        ROUND(7, 0, 1, 2, 3, 4, 5, 6, 1)
        ROUND(6, 7, 0, 1, 2, 3, 4, 5, 2)
        ROUND(5, 6, 7, 0, 1, 2, 3, 4, 3)
        ROUND(4, 5, 6, 7, 0, 1, 2, 3, 4)
        ROUND(3, 4, 5, 6, 7, 0, 1, 2, 5)
        ROUND(2, 3, 4, 5, 6, 7, 0, 1, 6)
        ROUND(1, 2, 3, 4, 5, 6, 7, 0, 7)
#undef ROUND
    }
    for (int k = 0; k < 8; ++k) hash->state[k] += s[k];
}

static void sha256_take(Sha256* hash, const void* from, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        hash->block[hash->used++] = ((const uint8_t*)from)[i];
        if (hash->used == 64) {
            sha256_block(hash);
            hash->used = 0;
        }
    }
    hash->length += size;
}

static void sha256_end(const Sha256* from, uint8_t digest[32]) {
    Sha256 hash = *from;
    const uint64_t bits = hash.length * 8;
    const uint8_t one = 0x80, zero = 0;
    sha256_take(&hash, &one, 1);
    while (hash.used != 56) sha256_take(&hash, &zero, 1);
    uint8_t length[8];
    for (int i = 0; i < 8; ++i) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_take(&hash, length, 8);
    for (int i = 0; i < 32; ++i) digest[i] = (uint8_t)(hash.state[i / 4] >> (24 - 8 * (i % 4)));
}

void guest_sha256(const void* from, size_t size, uint8_t digest[32]) {
    Sha256 hash;
    sha256_begin(&hash);
    sha256_take(&hash, from, size);
    sha256_end(&hash, digest);
}

static Sha256 journal;
static int has_journal;

static Sha256* open_journal(void) {
    if (!has_journal) sha256_begin(&journal);
    has_journal = 1;
    return &journal;
}

void guest_commit(const void* from, size_t size) {
    sha256_take(open_journal(), from, size);
    guest_call(0, 0, "risc0_zkvm_platform::syscall::nr::SYS_WRITE", JOURNAL, (uint32_t)from, size, CALL_WRITE);
}

// The output that a receipt commits to: SHA-256 of the digests of a tag, of the journal and of no assumptions, and their
// number.
void guest_exit(uint32_t code) {
    static uint8_t text[32 * 3 + 2] = {
        // SHA-256 of "risc0.Output".
        0x77, 0xea, 0xfe, 0xb3, 0x66, 0xa7, 0x8b, 0x47, 0x74, 0x7d, 0xe0, 0xd7, 0xbb, 0x17, 0x62, 0x84,
        0x08, 0x5f, 0xf5, 0x56, 0x48, 0x87, 0x00, 0x9a, 0x5b, 0xe6, 0x3d, 0xa3, 0x2d, 0x35, 0x59, 0xd4,
    };
    static uint32_t output[8];
    sha256_end(open_journal(), text + 32);
    text[96] = 2;
    guest_sha256(text, sizeof text, (uint8_t*)output);
    guest_halt(code << 8, output);
}

void guest_panic(const char* message) {
    size_t size = 0;
    while (message[size]) ++size;
    guest_call(0, 0, "risc0_zkvm_platform::syscall::nr::SYS_PANIC", (uint32_t)message, size, 0, CALL_PANIC);
    for (;;) {
    }
}
