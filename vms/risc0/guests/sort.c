// Sorts n numbers, n being a number of four bytes in the input, and commits to the smallest, the middle and the largest.
#include "guest.h"

enum { MOST = 1 << 18 };
static uint32_t values[MOST];

static void sink(uint32_t start, uint32_t end) {
    for (uint32_t root = start; 2 * root + 1 < end;) {
        uint32_t child = 2 * root + 1;
        if (child + 1 < end && values[child] < values[child + 1]) ++child;
        if (values[root] >= values[child]) return;
        const uint32_t swapped = values[root];
        values[root] = values[child];
        values[child] = swapped;
        root = child;
    }
}

int main(void) {
    uint32_t n;
    if (guest_read(&n, sizeof n) != sizeof n || n == 0 || n > MOST) guest_panic("the input is no number up to 2^18");
    uint32_t x = 2463534242u;
    for (uint32_t i = 0; i < n; ++i) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        values[i] = x;
    }
    for (uint32_t start = n / 2; start-- > 0;) sink(start, n);
    for (uint32_t end = n; end-- > 1;) {
        const uint32_t swapped = values[0];
        values[0] = values[end];
        values[end] = swapped;
        sink(0, end);
    }
    const uint32_t result[3] = {values[0], values[n / 2], values[n - 1]};
    guest_commit(result, sizeof result);
    return 0;
}
