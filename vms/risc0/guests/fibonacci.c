// Commits to the n-th Fibonacci number modulo 2^32 and to n, a number of four bytes in the input.
#include "guest.h"

int main(void) {
    uint32_t n;
    if (guest_read(&n, sizeof n) != sizeof n) guest_panic("the input is no number of four bytes");
    uint32_t a = 0, b = 1;
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t next = a + b;
        a = b;
        b = next;
        // So that the loop is not computed two steps at a time.
        __asm__ volatile("" : "+r"(a), "+r"(b));
    }
    const uint32_t result[2] = {n, a};
    guest_commit(result, sizeof result);
    return 0;
}
