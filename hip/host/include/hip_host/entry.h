// A kernel as an entry of the module's table: its arguments' places, and the loop over threads that it is inlined into.
#pragma once

namespace hip_host {

template <typename T> struct Plain { typedef T type; };
template <typename T> struct Plain<const T> { typedef T type; };
template <typename T> struct Plain<T &> : Plain<T> {};

// How the scanner spells a parameter of a kernel. A large struct goes by reference to the one copy that `run` made:
// compilers do not hoist a copy of a struct with arrays out of the loop over threads (17 ns a thread against 3).
template <bool BIG, typename T> struct ParameterType { typedef T type; };
template <typename T> struct ParameterType<true, T> { typedef const T &type; };
template <typename T>
using Parameter = typename ParameterType<(__is_class(T) && __is_trivially_copyable(T) && sizeof(T) > 16), T>::type;

template <typename... A> struct Layout {
    static constexpr unsigned count = sizeof...(A);
    // One slot more than needed: an array cannot be empty.
    unsigned offset[count + 1] = {}, size[count + 1] = {sizeof(typename Plain<A>::type)..., 0}, bytes = 0;

    constexpr Layout() {
        const unsigned align[] = {alignof(typename Plain<A>::type)..., 1};
        for (unsigned i = 0; i < count; i++) {
            bytes = (bytes + align[i] - 1) / align[i] * align[i];
            offset[i] = bytes;
            bytes += size[i];
        }
    }
};

template <unsigned... I> struct Indices {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef Indices<I...> type; };

// Threads of a row differ in x only. Knowing that an id is small lets the compiler see that indices made
// of it do not wrap around, without which it cannot vectorise: more blocks than this take the plain loop below.
constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned SMALL_GRID = (1u << 21) - 1;

template <auto F, typename Signature> struct Body;
template <auto F, typename... A> struct Body<F, void (*)(A...)> {
    static constexpr Layout<A...> layout{};

    HIP_HOST_INLINE void threads(unsigned first, unsigned last, typename Plain<A>::type... args) {
        const unsigned columns = width, rows = height;
        if (columns == 0 || columns > MAX_THREADS || rows == 0 || rows > MAX_THREADS) __builtin_unreachable();
        unsigned x = first % columns, y = first / columns % rows, z = first / columns / rows;
        while (first < last) {
            unsigned row = columns - x;
            if (row > last - first) row = last - first;
            const unsigned end = x + row;
            if (end > MAX_THREADS) __builtin_unreachable();
            thread_y = y;
            thread_z = z;
            for (; x < end; x++) {
                thread_x = x;
                F(args...);
                if (split) return;
            }
            first += row;
            x = 0;
            if (++y == rows) y = 0, z++;
        }
    }

    __attribute__((noinline, cold)) static void one_thread(typename Plain<A>::type... args) { F(args...); }
    __attribute__((noinline, cold)) static void threads_of_a_huge_grid(unsigned first, unsigned last,
                                                                       typename Plain<A>::type... args) {
        for (; first < last && !split; first++) {
            thread_x = first % width;
            thread_y = first / width % height;
            thread_z = first / width / height;
            one_thread(args...);
        }
    }

    template <unsigned... I>
    __attribute__((always_inline)) static void unpack(const void *args, const hip_host_block *block, unsigned first,
                                                      unsigned last, Indices<I...>) {
        const unsigned x = block->block_idx.x, columns = block->block_dim.x;
        if (columns == 0 || columns > MAX_THREADS) __builtin_unreachable();
        block_x = x;
        block_y = block->block_idx.y;
        block_z = block->block_idx.z;
        width = columns;
        height = block->block_dim.y;
        depth = block->block_dim.z;
        grid_x = block->grid_dim.x;
        grid_y = block->grid_dim.y;
        grid_z = block->grid_dim.z;
        wave_size = block->warp_size;
        dynamic_shared = block->dynamic_shared;
        split = false;
        if (__builtin_expect(x < SMALL_GRID, 1))
            threads(first, last, *(const typename Plain<A>::type *)((const char *)args + layout.offset[I])...);
        else
#if defined(HIP_HOST_SMALL_GRIDS)
            // Every kernel is compiled a second time for what nearly no launch needs: whoever has many of them
            // can do without.
            runtime.trap(first, 1, "compiled with -DHIP_HOST_SMALL_GRIDS: at most 2097151 blocks along x");
#else
            threads_of_a_huge_grid(first, last,
                                   *(const typename Plain<A>::type *)((const char *)args + layout.offset[I])...);
#endif
    }

    __attribute__((flatten)) static void run(const void *args, const hip_host_block *block, unsigned first, unsigned last) {
        unpack(args, block, first, last, typename Count<sizeof...(A)>::type{});
    }

    static constexpr hip_host_kernel entry(const char *name) {
        return {name, layout.count, layout.bytes, layout.offset, layout.size, run};
    }
};
template <auto F, typename... A> struct Body<F, void (*)(A...) noexcept> : Body<F, void (*)(A...)> {};

// The scanner writes one of these for each kernel it found.
template <auto F> constexpr hip_host_kernel kernel(const char *name) { return Body<F, decltype(F)>::entry(name); }

static void bind(const hip_host_runtime *services) { runtime = *services; }

} // namespace hip_host
