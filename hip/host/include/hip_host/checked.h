// Checked mode: what the compiler calls before every load and store (-fsanitize=kernel-address with outlined checks).
// An address inside the arena has a shadow byte: 0 no buffer, 1 never written, 2 written, 3 freed. Loads need 2;
// stores need 1 or 2 and leave 2. Addresses outside the arena (stack, shared memory, arguments) pass.
#pragma once

#ifdef HIP_HOST_CHECKED

#define HIP_HOST_UNCHECKED __attribute__((no_sanitize("kernel-address"), noinline, visibility("hidden"), used))

namespace hip_host {

// A word whose every byte is `byte`.
template <typename Word> constexpr Word repeat(unsigned char byte) {
    return Word(Word(~Word(0)) / 255 * byte);
}

HIP_HOST_UNCHECKED static void check_slowly(unsigned kind, const void *address, size_t bytes) {
    const unsigned long long offset = (unsigned long long)address - runtime.arena_base;
    for (size_t i = 0; i < bytes; i++) {
        // An access may begin inside the arena and end behind it, where no buffer is.
        const unsigned char state = offset + i < runtime.arena_bytes ? runtime.shadow[offset + i] : 0;
        const bool allowed = kind == HIP_HOST_STORE ? state == 1 || state == 2 : state == 2;
        if (!allowed)
            runtime.violation(linear_thread(), kind, address, bytes > 0xffffffffu ? 0xffffffffu : (unsigned)bytes);
    }
    if (kind != HIP_HOST_LOAD) __builtin_memset(runtime.shadow + offset, 2, bytes);
}

} // namespace hip_host

// Threads of different workers may set the same shadow byte; both write 2.
#define HIP_HOST_CALLBACKS(size, Word)                                                                                 \
    HIP_HOST_UNCHECKED void __asan_load##size##_noabort(unsigned long address) {                                       \
        const unsigned long long offset = address - hip_host::runtime.arena_base;                                      \
        if (offset >= hip_host::runtime.arena_bytes) return;                                                           \
        Word state;                                                                                                    \
        __builtin_memcpy(&state, hip_host::runtime.shadow + offset, sizeof(Word));                                     \
        if (__builtin_expect(state != hip_host::repeat<Word>(2), 0))                                                   \
            hip_host::check_slowly(HIP_HOST_LOAD, (const void *)address, sizeof(Word));                                \
    }                                                                                                                  \
    HIP_HOST_UNCHECKED void __asan_store##size##_noabort(unsigned long address) {                                      \
        const unsigned long long offset = address - hip_host::runtime.arena_base;                                      \
        if (offset >= hip_host::runtime.arena_bytes) return;                                                           \
        Word state;                                                                                                    \
        __builtin_memcpy(&state, hip_host::runtime.shadow + offset, sizeof(Word));                                     \
        if (__builtin_expect(state != hip_host::repeat<Word>(2), 0))                                                   \
            hip_host::check_slowly(HIP_HOST_STORE, (const void *)address, sizeof(Word));                               \
    }

extern "C" {
HIP_HOST_CALLBACKS(1, unsigned char)
HIP_HOST_CALLBACKS(2, unsigned short)
HIP_HOST_CALLBACKS(4, unsigned int)
HIP_HOST_CALLBACKS(8, unsigned long long)
HIP_HOST_CALLBACKS(16, unsigned __int128)

HIP_HOST_UNCHECKED void __asan_loadN_noabort(unsigned long address, unsigned long bytes) {
    if (bytes != 0 && address - hip_host::runtime.arena_base < hip_host::runtime.arena_bytes)
        hip_host::check_slowly(HIP_HOST_LOAD, (const void *)address, bytes);
}
HIP_HOST_UNCHECKED void __asan_storeN_noabort(unsigned long address, unsigned long bytes) {
    if (bytes != 0 && address - hip_host::runtime.arena_base < hip_host::runtime.arena_bytes)
        hip_host::check_slowly(HIP_HOST_STORE, (const void *)address, bytes);
}
HIP_HOST_UNCHECKED void __asan_handle_no_return(void) {}

// Block copies: clang calls these by themselves, g++ by way of the macros below.
HIP_HOST_UNCHECKED void *__asan_memcpy(void *to, const void *from, size_t bytes) {
    __asan_loadN_noabort((unsigned long)from, bytes);
    __asan_storeN_noabort((unsigned long)to, bytes);
    return __builtin_memcpy(to, from, bytes);
}
HIP_HOST_UNCHECKED void *__asan_memmove(void *to, const void *from, size_t bytes) {
    __asan_loadN_noabort((unsigned long)from, bytes);
    __asan_storeN_noabort((unsigned long)to, bytes);
    return __builtin_memmove(to, from, bytes);
}
HIP_HOST_UNCHECKED void *__asan_memset(void *to, int byte, size_t bytes) {
    __asan_storeN_noabort((unsigned long)to, bytes);
    return __builtin_memset(to, byte, bytes);
}
}
#undef HIP_HOST_CALLBACKS

namespace std {
using ::__asan_memcpy;
using ::__asan_memmove;
using ::__asan_memset;
} // namespace std
#define memcpy(...) __asan_memcpy(__VA_ARGS__)
#define memmove(...) __asan_memmove(__VA_ARGS__)
#define memset(...) __asan_memset(__VA_ARGS__)

namespace hip_host {

// Before a read-modify-write: the old value is read, so it must have been written.
template <typename T> HIP_HOST_INLINE void check_update(const volatile T *at) {
    const unsigned long long offset = (unsigned long long)at - runtime.arena_base;
    if (offset < runtime.arena_bytes) check_slowly(HIP_HOST_ATOMIC, (const void *)at, sizeof(T));
}

} // namespace hip_host

#else

namespace hip_host {
template <typename T> HIP_HOST_INLINE void check_update(const volatile T *) {}
} // namespace hip_host

#endif
