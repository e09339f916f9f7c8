// What guests in C use of the host. A guest is compiled with guest.c and start.S by scripts/build-guests.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Reads up to `size` bytes of the standard input; the result is the number of bytes read.
size_t guest_read(void* to, size_t size);
// Appends bytes to the journal.
void guest_commit(const void* from, size_t size);
// Ends the program with a message, as a panic does.
void guest_panic(const char* message) __attribute__((noreturn));
// SHA-256 of some bytes.
void guest_sha256(const void* from, size_t size, uint8_t digest[32]);
