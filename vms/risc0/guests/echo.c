// Commits to the input, up to 4 KiB.
#include "guest.h"

static uint8_t input[4096];

int main(void) {
    guest_commit(input, guest_read(input, sizeof input));
    return 0;
}
