// `assert`: a failed one ends the grid with hipErrorAssert and leaves the process alone. As in C, every inclusion looks
// at NDEBUG anew; the first happens behind the definitions that a compilation was given.
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define HIP_HOST_TEXT_(line) #line
#define HIP_HOST_TEXT(line) HIP_HOST_TEXT_(line)
#define assert(...)                                                                                                    \
    ((__VA_ARGS__) ? (void)0                                                                                           \
                   : hip_host::trap(HIP_HOST_TRAP_ASSERT, __FILE__ ":" HIP_HOST_TEXT(__LINE__) ": " #__VA_ARGS__))
#endif
