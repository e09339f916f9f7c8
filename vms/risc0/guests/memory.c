// Reads and writes n words all over 16 MiB, n being a number of four bytes in the input: every access is another page.
#include "guest.h"

enum { WORDS = 1 << 22 };
static uint32_t memory[WORDS];

int main(void) {
    uint32_t n;
    if (guest_read(&n, sizeof n) != sizeof n) guest_panic("the input is no number of four bytes");
    uint32_t x = 1;
    for (uint32_t i = 0; i < n; ++i) {
        x = x * 1664525u + 1013904223u;
        memory[x % WORDS] += x;
    }
    guest_commit(&x, sizeof x);
    return 0;
}
