// Waves: shuffles, votes, masks. The size of a wave is a run-time value, 32 or 64.
//
// The lanes that meet are those that wait at the same place in the text, which is what a GPU's reconvergence amounts to.
// So each use of a name below carries a number of its own (__COUNTER__, in the order of the text): a function that is
// inlined twice or a loop that is unrolled keeps one number, and two places never share one.
#pragma once

namespace hip_host {

struct WarpSize {
    HIP_HOST_INLINE_MEMBER operator int() const { return (int)wave_size; }
};

HIP_HOST_INLINE unsigned lane_id() { return linear_thread() & (wave_size - 1); }

// A value of 1 to 16 bytes as words, which is how it travels.
template <typename T> struct Words {
    static_assert(sizeof(T) <= 16, "a lane exchanges at most 16 bytes at once");
    static_assert(__is_trivially_copyable(T), "a lane exchanges plain data");
    unsigned long long word[sizeof(T) > 8 ? 2 : 1] = {};

    HIP_HOST_INLINE_MEMBER Words(const T &value) { __builtin_memcpy(word, &value, sizeof(T)); }
    HIP_HOST_INLINE_MEMBER T value() const {
        T value;
        __builtin_memcpy((void *)&value, word, sizeof(T));
        return value;
    }
};

struct Site {
    unsigned number;

    HIP_HOST_INLINE_MEMBER const hip_host_wave_result *meet(unsigned long long word, unsigned part = 0) const {
        const unsigned x = thread_x, y = thread_y, z = thread_z;
        const hip_host_wave_result *result = runtime.wave(linear_thread(), 2 * number + part, word);
        thread_x = x;
    thread_y = y;
    thread_z = z;
        split = true;
        return result;
    }

    // The value of lane `lane`. A lane that does not take part has no value; its reader keeps its own.
    template <typename T> HIP_HOST_INLINE_MEMBER T from(T value, unsigned lane) const {
        Words<T> words(value);
        for (unsigned part = 0; part < sizeof(words.word) / 8; part++) {
            const hip_host_wave_result *all = meet(words.word[part], part);
            if (all->active >> lane & 1) words.word[part] = all->value[lane];
        }
        return words.value();
    }

    // Lanes are counted within groups of `width`, a power of two; 0 is the whole wave.
    HIP_HOST_INLINE_MEMBER unsigned group(int width) const { return width == 0 ? wave_size : (unsigned)width; }

    template <typename T> HIP_HOST_INLINE_MEMBER T shfl(T value, int lane, int width = 0) const {
        const unsigned self = lane_id(), size = group(width);
        return from(value, (self & ~(size - 1)) | ((unsigned)lane & (size - 1)));
    }
    template <typename T> HIP_HOST_INLINE_MEMBER T shfl_up(T value, unsigned delta, int width = 0) const {
        const unsigned self = lane_id(), size = group(width);
        return from(value, (self & (size - 1)) < delta ? self : self - delta);
    }
    template <typename T> HIP_HOST_INLINE_MEMBER T shfl_down(T value, unsigned delta, int width = 0) const {
        const unsigned self = lane_id(), size = group(width);
        return from(value, (self & (size - 1)) + delta >= size ? self : self + delta);
    }
    template <typename T> HIP_HOST_INLINE_MEMBER T shfl_xor(T value, int mask, int width = 0) const {
        const unsigned self = lane_id(), size = group(width), lane = self ^ (unsigned)mask;
        // A group may read from those before it, not from those behind it.
        return from(value, lane >= ((self + size) & ~(size - 1)) ? self : lane);
    }

    // The forms with a mask of lanes. The mask says who takes part; here those who arrive do.
    template <typename M, typename T>
    HIP_HOST_INLINE_MEMBER T shfl_sync(M, T value, int lane, int width = 0) const { return shfl(value, lane, width); }
    template <typename M, typename T>
    HIP_HOST_INLINE_MEMBER T shfl_up_sync(M, T value, unsigned delta, int width = 0) const {
        return shfl_up(value, delta, width);
    }
    template <typename M, typename T>
    HIP_HOST_INLINE_MEMBER T shfl_down_sync(M, T value, unsigned delta, int width = 0) const {
        return shfl_down(value, delta, width);
    }
    template <typename M, typename T>
    HIP_HOST_INLINE_MEMBER T shfl_xor_sync(M, T value, int mask, int width = 0) const {
        return shfl_xor(value, mask, width);
    }

    struct Votes {
        unsigned long long active, yes;
    };
    HIP_HOST_INLINE_MEMBER Votes votes(bool yes) const {
        const hip_host_wave_result *all = meet(yes);
        Votes votes = {all->active, 0};
        for (unsigned lane = 0; lane < 64; lane++)
            votes.yes |= (all->value[lane] & (votes.active >> lane) & 1ull) << lane;
        return votes;
    }
    HIP_HOST_INLINE_MEMBER unsigned long long ballot(int yes) const { return votes(yes != 0).yes; }
    HIP_HOST_INLINE_MEMBER int any(int yes) const { return votes(yes != 0).yes != 0; }
    HIP_HOST_INLINE_MEMBER int all(int yes) const {
        const Votes counted = votes(yes != 0);
        return counted.yes == counted.active;
    }
    template <typename M> HIP_HOST_INLINE_MEMBER unsigned long long ballot_sync(M mask, int yes) const {
        return ballot(yes) & (unsigned long long)mask;
    }
    template <typename M> HIP_HOST_INLINE_MEMBER int any_sync(M, int yes) const { return any(yes); }
    template <typename M> HIP_HOST_INLINE_MEMBER int all_sync(M, int yes) const { return all(yes); }
    HIP_HOST_INLINE_MEMBER unsigned long long activemask() const { return meet(0)->active; }
    template <typename... M> HIP_HOST_INLINE_MEMBER void syncwarp(M...) const {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        meet(0);
    }
    template <typename T> HIP_HOST_INLINE_MEMBER T readfirstlane(T value) const {
        const hip_host_wave_result *all = meet(Words<T>(value).word[0]);
        Words<T> words(value);
        words.word[0] = all->value[__builtin_ctzll(all->active)];
        return words.value();
    }
};

} // namespace hip_host

static constexpr hip_host::WarpSize warpSize = {};

HIP_HOST_INLINE unsigned __lane_id() { return hip_host::lane_id(); }

#define HIP_HOST_SITE hip_host::Site{__COUNTER__}
#define __shfl HIP_HOST_SITE.shfl
#define __shfl_up HIP_HOST_SITE.shfl_up
#define __shfl_down HIP_HOST_SITE.shfl_down
#define __shfl_xor HIP_HOST_SITE.shfl_xor
#define __shfl_sync HIP_HOST_SITE.shfl_sync
#define __shfl_up_sync HIP_HOST_SITE.shfl_up_sync
#define __shfl_down_sync HIP_HOST_SITE.shfl_down_sync
#define __shfl_xor_sync HIP_HOST_SITE.shfl_xor_sync
#define __ballot HIP_HOST_SITE.ballot
#define __ballot_sync HIP_HOST_SITE.ballot_sync
#define __any HIP_HOST_SITE.any
#define __any_sync HIP_HOST_SITE.any_sync
#define __all HIP_HOST_SITE.all
#define __all_sync HIP_HOST_SITE.all_sync
#define __activemask HIP_HOST_SITE.activemask
#define __syncwarp HIP_HOST_SITE.syncwarp
#define __builtin_amdgcn_readfirstlane HIP_HOST_SITE.readfirstlane
