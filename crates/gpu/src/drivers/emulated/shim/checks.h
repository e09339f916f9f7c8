// The functions that the compiler calls before each load and store (-fsanitize=kernel-address with outlined
// checks). Defining them here avoids the need for a sanitizer runtime.
//
// Each shadow byte covers 8 bytes of the region: it holds how many of them, counted from the first, are
// accessible; zero or less if none are.
namespace rigel_emulated {

#define RIGEL_HOOK extern "C" __attribute__((visibility("hidden"), used)) RIGEL_UNCHECKED

RIGEL_UNCHECKED static void report(FaultKind kind, size_t at, size_t bytes, bool write) {
    Thread* t = self();
    Block* b = t->block;
    b->fault = kind;
    b->fault_address = at;
    b->fault_bytes = (unsigned)bytes;
    b->fault_write = write;
    t->wait = FAULT;
    wait(t);
}

RIGEL_UNCHECKED static void check_bytes(size_t at, size_t bytes, bool write) {
    if (at - runtime.region >= runtime.region_bytes) return;
    for (size_t i = at; i < at + bytes;) {
        signed char s = runtime.shadow[(i - runtime.region) >> 3];
        size_t next = (i & ~(size_t)7) + 8, end = next < at + bytes ? next : at + bytes;
        if ((signed char)((end - 1) & 7) >= s) report(OUT_OF_RANGE, at, bytes, write);
        i = end;
    }
}

RIGEL_UNCHECKED static void check_closely(size_t at, size_t bytes, bool write) {
    check_bytes(at, bytes, write);
    if (at & (bytes - 1)) report(MISALIGNED, at, bytes, write);
}

// The common case is one compare and one shadow lookup: an aligned access of at most 8 bytes lies in one granule,
// one of 16 bytes in two. A load also makes a polling loop yield when the block that it waits for has failed.
#define RIGEL_CHECK(verb, write, bytes)                                                          \
    RIGEL_HOOK void __asan_##verb##bytes##_noabort(size_t at) {                                  \
        size_t offset = at - runtime.region;                                                     \
        if (offset >= runtime.region_bytes) return;                                              \
        bool good = runtime.shadow[offset >> 3] == 8 && (at & (bytes - 1)) == 0 &&               \
                    (bytes < 16 || runtime.shadow[(offset >> 3) + 1] == 8);                      \
        if (__builtin_expect(!good, 0)) check_closely(at, bytes, write);                         \
        if (!write && __builtin_expect(*runtime.hurry, 0)) spin();                               \
    }                                                                                            \
    RIGEL_HOOK void __asan_report_##verb##bytes##_noabort(size_t at) { report(OUT_OF_RANGE, at, bytes, write); }

RIGEL_CHECK(load, false, 1)
RIGEL_CHECK(load, false, 2)
RIGEL_CHECK(load, false, 4)
RIGEL_CHECK(load, false, 8)
RIGEL_CHECK(load, false, 16)
RIGEL_CHECK(store, true, 1)
RIGEL_CHECK(store, true, 2)
RIGEL_CHECK(store, true, 4)
RIGEL_CHECK(store, true, 8)
RIGEL_CHECK(store, true, 16)

RIGEL_HOOK void __asan_loadN_noabort(size_t at, size_t bytes) { check_bytes(at, bytes, false); }
RIGEL_HOOK void __asan_storeN_noabort(size_t at, size_t bytes) { check_bytes(at, bytes, true); }
RIGEL_HOOK void __asan_report_load_n_noabort(size_t at, size_t bytes) { report(OUT_OF_RANGE, at, bytes, false); }
RIGEL_HOOK void __asan_report_store_n_noabort(size_t at, size_t bytes) { report(OUT_OF_RANGE, at, bytes, true); }
RIGEL_HOOK void __asan_handle_no_return() {}

RIGEL_HOOK void* __asan_memcpy(void* to, const void* from, size_t bytes) {
    check_bytes((size_t)from, bytes, false);
    check_bytes((size_t)to, bytes, true);
    return __builtin_memcpy(to, from, bytes);
}
RIGEL_HOOK void* __asan_memmove(void* to, const void* from, size_t bytes) {
    check_bytes((size_t)from, bytes, false);
    check_bytes((size_t)to, bytes, true);
    return __builtin_memmove(to, from, bytes);
}
RIGEL_HOOK void* __asan_memset(void* to, int byte, size_t bytes) {
    check_bytes((size_t)to, bytes, true);
    return __builtin_memset(to, byte, bytes);
}

}  // namespace rigel_emulated

#define memcpy(to, from, bytes) ::rigel_emulated::__asan_memcpy((to), (from), (bytes))
#define memmove(to, from, bytes) ::rigel_emulated::__asan_memmove((to), (from), (bytes))
#define memset(to, byte, bytes) ::rigel_emulated::__asan_memset((to), (byte), (bytes))
