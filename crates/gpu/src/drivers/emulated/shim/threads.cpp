// Runs one grid with a real thread for each thread of a block, one block after the other, so that
// ThreadSanitizer detects accesses that no barrier orders.
//
// The block and each warp have separate locks: with a single lock, ThreadSanitizer would consider accesses ordered
// that are unordered on a GPU.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rigel_emulated/device.h"

#define HARNESS __attribute__((no_sanitize("thread")))

using namespace rigel_emulated;

extern "C" const Kernel* const rigel_table[];
extern "C" const unsigned rigel_table_size;

namespace rigel_emulated {
extern "C" {
thread_local Thread* rigel_thread;
}
}  // namespace rigel_emulated

namespace {

// Threads that wait at the block's barrier, or at operations of one warp.
struct Meeting {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
    Thread* member[1024];
    bool waiting[1024], live[1024];
    unsigned count;
};

Block the_block;
Thread threads[1024];
Meeting everyone, warps[32];
void** arguments;
const Kernel* kernel;
unsigned total;
// High half: live threads of the block; low half: waiting threads. If all live threads wait, the block is
// deadlocked.
unsigned long long balance;

HARNESS void stop(int status, const char* what, const Thread* t) {
    static int stopped;
    if (__atomic_exchange_n(&stopped, 1, __ATOMIC_RELAXED)) pause();
    fprintf(stderr, "rigel: thread (%u, %u, %u) of block (%u, %u, %u): %s\n", t->x, t->y, t->z, the_block.index[0],
            the_block.index[1], the_block.index[2], what);
    _exit(status);
}

HARNESS void change_balance(long long threads_live, long long threads_waiting, const Thread* t) {
    unsigned long long change = ((unsigned long long)threads_live << 32) + (unsigned long long)threads_waiting;
    unsigned long long now = __atomic_add_fetch(&balance, change, __ATOMIC_RELAXED);
    if (now != 0 && (unsigned)now == (unsigned)(now >> 32))
        stop(67, "barrier divergence: all live threads wait, but not at the same barrier", t);
}

// Completes the operation at which `t` waits if all of its threads have arrived. The lock is held. `counted` says
// whether `t` is already counted as waiting.
HARNESS bool complete(Meeting& m, const Thread* t, bool counted) {
    Wait kind = t->wait;
    unsigned mask = t->mask, site = t->source, group = 0, ayes = 0, members[1024];
    bool of_warp = kind >= WARP_SYNC;
    for (unsigned i = 0; i < m.count; i++) {
        if (!m.live[i]) continue;
        if (of_warp && kind != WARP_ACTIVE && !(mask >> i & 1)) continue;
        const Thread* u = m.member[i];
        bool here = m.waiting[i] && u->wait == kind && (!of_warp || u->mask == mask);
        if (kind == WARP_ACTIVE) here = here && u->source == site;
        if (!here && kind == WARP_ACTIVE) continue;
        if (!here) return false;
        members[group++] = i;
        ayes += u->value != 0;
    }
    unsigned long long result = 0, values[32];
    unsigned lanes = 0, ballot = 0;
    if (of_warp) {
        memset(values, 0xa5, sizeof values);
        for (unsigned i = 0; i < group; i++) {
            unsigned lane = members[i], v = (unsigned)m.member[lane]->value, r = (unsigned)result;
            values[lane] = m.member[lane]->value;
            lanes |= 1u << lane;
            ballot |= (v != 0) << lane;
            if (i == 0) r = v;
            else if (kind == WARP_ADD) r += v;
            else if (kind == WARP_MIN) r = v < r ? v : r;
            else if (kind == WARP_MAX) r = v > r ? v : r;
            else if (kind == WARP_AND) r &= v;
            else if (kind == WARP_OR) r |= v;
            else if (kind == WARP_XOR) r ^= v;
            result = r;
        }
        if (kind == WARP_BALLOT) result = (unsigned long long)lanes << 32 | ballot;
        if (kind == WARP_ACTIVE) result = lanes;
    } else {
        result = kind == BLOCK_OR ? ayes > 0 : kind == BLOCK_AND ? ayes == group : ayes;
    }
    for (unsigned i = 0; i < group; i++) {
        Thread* u = m.member[members[i]];
        u->value = kind == WARP_SHUFFLE ? values[u->source % 32] : result;
        m.waiting[members[i]] = false;
    }
    change_balance(0, counted ? -(long long)group : 1 - (long long)group, t);
    pthread_cond_broadcast(&m.moved);
    return true;
}

HARNESS void meet_at(Meeting& m, unsigned place, Thread* t) {
    pthread_mutex_lock(&m.lock);
    m.waiting[place] = true;
    if (!complete(m, t, false)) {
        change_balance(0, 1, t);
        while (m.waiting[place]) pthread_cond_wait(&m.moved, &m.lock);
    }
    pthread_mutex_unlock(&m.lock);
}

// An ended thread no longer counts, which may complete operations that others wait for.
HARNESS void end_at(Meeting& m, unsigned place) {
    pthread_mutex_lock(&m.lock);
    m.live[place] = false;
    for (unsigned i = 0; i < m.count; i++)
        if (m.waiting[i]) complete(m, m.member[i], true);
    pthread_mutex_unlock(&m.lock);
}

HARNESS void open(Meeting& m, unsigned first, unsigned count) {
    m.count = count;
    for (unsigned i = 0; i < count; i++) {
        m.member[i] = &threads[first + i];
        m.live[i] = true;
        m.waiting[i] = false;
    }
}

HARNESS void* run_thread(void* self) {
    Thread* t = rigel_thread = (Thread*)self;
    char name[16];
    snprintf(name, sizeof name, "(%u, %u, %u)", t->x, t->y, t->z);
    pthread_setname_np(pthread_self(), name);
    kernel->entry(arguments);
    // The thread counts as live, and not as waiting, until it has left the block's and its warp's operations.
    end_at(warps[t->linear / 32], t->linear % 32);
    end_at(everyone, t->linear);
    change_balance(-1, 0, t);
    return nullptr;
}

HARNESS void run_block() {
    balance = (unsigned long long)total << 32;
    open(everyone, 0, total);
    for (unsigned w = 0; w * 32 < total; w++) open(warps[w], w * 32, total - w * 32 < 32 ? total - w * 32 : 32);
    pthread_t handles[1024];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (unsigned i = 0; i < total; i++) {
        if (pthread_create(&handles[i], &small, run_thread, &threads[i]) != 0) {
            fprintf(stderr, "rigel: only %u threads could be started\n", i);
            _exit(69);
        }
    }
    for (unsigned i = 0; i < total; i++) pthread_join(handles[i], nullptr);
}

HARNESS unsigned long long number(char** text) { return strtoull(*text, nullptr, 0); }

}  // namespace

extern "C" HARNESS void rigel_wait(Thread* t) {
    if (t->wait == SPIN) {
        sched_yield();
    } else if (t->wait == FAULT) {
        stop(68, t->block->message, t);
    } else if (t->wait >= WARP_SYNC) {
        if (t->wait != WARP_ACTIVE && !(t->mask >> t->linear % 32 & 1))
            stop(67, "the mask of a warp operation does not contain the thread's own lane", t);
        meet_at(warps[t->linear / 32], t->linear % 32, t);
    } else {
        meet_at(everyone, t->linear, t);
    }
}

// Called by ThreadSanitizer before it ends the process.
extern "C" __attribute__((visibility("default"))) HARNESS void __tsan_on_report(void*) {
    fprintf(stderr, "rigel: in block (%u, %u, %u)\n", the_block.index[0], the_block.index[1], the_block.index[2]);
}

// Without arguments: lists the size and passing of each parameter of each kernel. With arguments (kernel, blocks,
// threads, shared memory, and the descriptor, address and length of device memory): runs a kernel, with its
// parameters from standard input.
HARNESS int main(int argc, char** argv) {
    if (argc < 12) {
        for (unsigned k = 0; k < rigel_table_size; k++) {
            const auto* listed = rigel_table[k];
            for (unsigned i = 0; i < listed->parameters; i++) printf("%u %u ", listed->sizes[i], listed->passing[i]);
            printf("\n");
        }
        return 0;
    }
    kernel = rigel_table[number(argv + 1)];
    for (int i = 0; i < 3; i++) {
        the_block.blocks[i] = (unsigned)number(argv + 2 + i);
        the_block.threads[i] = (unsigned)number(argv + 5 + i);
    }
    the_block.dynamic_bytes = (unsigned)number(argv + 8);
    the_block.dynamic = (unsigned char*)aligned_alloc(256, (the_block.dynamic_bytes + 511) / 256 * 256);

    // Not through the C library, where ThreadSanitizer would touch the shadow of the whole range.
    size_t base = number(argv + 10);
    long got = syscall(SYS_mmap, base, number(argv + 11), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, (int)number(argv + 9), 0);
    if (got != (long)base) {
        perror("rigel: device memory can't be mapped");
        return 69;
    }

    arguments = (void**)calloc(kernel->parameters + 1, sizeof(void*));
    for (unsigned i = 0; i < kernel->parameters; i++) {
        arguments[i] = aligned_alloc(64, (kernel->sizes[i] + 63) / 64 * 64);
        if (fread(arguments[i], kernel->sizes[i], 1, stdin) != 1) {
            fprintf(stderr, "rigel: parameter %u is missing\n", i);
            return 69;
        }
    }

    unsigned *n = the_block.threads, *b = the_block.blocks;
    total = n[0] * n[1] * n[2];
    for (unsigned i = 0; i < total; i++) {
        Thread& t = threads[i];
        t.block = &the_block;
        t.linear = i;
        t.x = i % n[0];
        t.y = i / n[0] % n[1];
        t.z = i / n[0] / n[1];
    }
    for (unsigned z = 0; z < b[2]; z++)
        for (unsigned y = 0; y < b[1]; y++)
            for (unsigned x = 0; x < b[0]; x++) {
                the_block.index[0] = x;
                the_block.index[1] = y;
                the_block.index[2] = z;
                run_block();
            }
    return 0;
}
