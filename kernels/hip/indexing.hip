// Reads and writes through a tensor of ids: index_select (is), gather, scatter (s), scatter_add (sa), index_add (ia).
// One thread an element over all of left x ids x right, none of them serial along the dimension. The greatest value of
// the ids' dtype means "none": such an element reads as 0 and is not written, as on the CPU backend. Ids of 16 and 32 bits
// with a sign come as i64 (src/indexing.rs); what means "none" is the greatest value of what they were.
// Any other id out of range is reported and treated alike, so nothing outside the tensors is ever touched.
#include "portable.h"

#define INDEXING_THREADS 256
#define INDEXING_BATCH 4
SHARE(INDEXING_THREADS)
SHARE(INDEXING_BATCH)

// Left x ids x right elements. The dense operand (the output of a read, the source of a write) and the ids are
// addressed by (left, row, right); in the indexed operand the id takes the place of the row, and `right` has stride 1.
struct IndexGeometry {
    u32 count;
    u32 unused;
    Divider right, row;
    u64 bound; // ids are below this
    u64 none;  // but for this one
    u64 dense_left, dense_row;
    u64 indexed_left, indexed_row;
    u64 ids_left, ids_row, ids_right;
};
SHARE_LAYOUT(IndexGeometry, count, right, row, bound, dense_left, dense_row, indexed_left, indexed_row, ids_left, ids_row,
             ids_right)

struct Place {
    u64 dense;
    u64 indexed;
    u32 row; // among the ids
    bool valid;
};

template <typename Id> DEVICE Place locate(const IndexGeometry &geometry, u32 i, u32 width, const Id *ids, FaultWord *fault,
                                           FaultCode code) {
    Division inner = divide(i, geometry.right);
    Division outer = divide(inner.quotient, geometry.row);
    u64 right = (u64)inner.remainder * width, row = outer.remainder, left = outer.quotient;
    Id id = ids[left * geometry.ids_left + row * geometry.ids_row + right * geometry.ids_right];
    Place place;
    place.row = outer.remainder;
    place.dense = left * geometry.dense_left + row * geometry.dense_row + right;
    place.indexed = left * geometry.indexed_left + (u64)id * geometry.indexed_row + right;
    bool none = (u64)id == geometry.none;
    place.valid = !none && (u64)id < geometry.bound; // a negative id is a huge u64
    if (!none && !place.valid) report(fault, code, (i64)id, geometry.bound);
    return place;
}

template <typename Id, typename T, u32 WIDTH>
DEVICE void read(const IndexGeometry &geometry, T *out, const T *from, const Id *ids, FaultWord *fault, FaultCode code) {
    UNROLL
    for (u32 b = 0; b < INDEXING_BATCH; b++) {
        u32 i = (block_x() * INDEXING_BATCH + b) * INDEXING_THREADS + thread_x();
        if (i < geometry.count) {
            Place at = locate(geometry, i, WIDTH, ids, fault, code);
            Vec<T, WIDTH> value = {};
            if (at.valid) value = load<WIDTH>(from + at.indexed);
            store<WIDTH>(out + at.dense, value);
        }
    }
}

// Where several elements of a scatter have one destination the last row wins, as on the CPU, whatever order the threads run
// in: `mark` notes the last row for every destination, 1 for row 0, and `scatter` writes that one only.
template <typename Id> DEVICE void mark(const IndexGeometry &geometry, u32 *last, const Id *ids, FaultWord *fault) {
    UNROLL
    for (u32 b = 0; b < INDEXING_BATCH; b++) {
        u32 i = (block_x() * INDEXING_BATCH + b) * INDEXING_THREADS + thread_x();
        if (i < geometry.count) {
            Place at = locate(geometry, i, 1, ids, fault, FAULT_SCATTER);
            if (at.valid) atomic_max(last + at.indexed, at.row + 1);
        }
    }
}

template <typename Id, typename T>
DEVICE void scatter(const IndexGeometry &geometry, T *out, const T *from, const Id *ids, const u32 *last, FaultWord *fault) {
    UNROLL
    for (u32 b = 0; b < INDEXING_BATCH; b++) {
        u32 i = (block_x() * INDEXING_BATCH + b) * INDEXING_THREADS + thread_x();
        if (i < geometry.count) {
            Place at = locate(geometry, i, 1, ids, fault, FAULT_SCATTER);
            if (at.valid && last[at.indexed] == at.row + 1) out[at.indexed] = from[at.dense];
        }
    }
}

template <typename Id, typename T>
DEVICE void accumulate(const IndexGeometry &geometry, T *out, const T *from, const Id *ids, FaultWord *fault, FaultCode code) {
    UNROLL
    for (u32 b = 0; b < INDEXING_BATCH; b++) {
        u32 i = (block_x() * INDEXING_BATCH + b) * INDEXING_THREADS + thread_x();
        if (i < geometry.count) {
            Place at = locate(geometry, i, 1, ids, fault, code);
            if (at.valid) atomic_add(out + at.indexed, from[at.dense]);
        }
    }
}

#define INDEXED(name, Id, T, ...)                                                                                    \
    KERNEL(INDEXING_THREADS) name##_##Id##_##T(IndexGeometry geometry, T *RESTRICT out, const T *RESTRICT from,                     \
                                               const Id *RESTRICT ids, FaultWord *fault) { enter();                  \
        __VA_ARGS__;                                                                                                 \
    }
#define ENTRY(T, Id)                                                                                                 \
    INDEXED(is, Id, T, read<Id, T, 1>(geometry, out, from, ids, fault, FAULT_INDEX_SELECT))                               \
    KERNEL(INDEXING_THREADS) is_##Id##_##T##_rows(IndexGeometry geometry, T *RESTRICT out, const T *RESTRICT from,                  \
                                                  const Id *RESTRICT ids, FaultWord *fault) { enter();               \
        read<Id, T, Lanes<T>::count>(geometry, out, from, ids, fault, FAULT_INDEX_SELECT);                                \
    }                                                                                                                \
    INDEXED(gather, Id, T, read<Id, T, 1>(geometry, out, from, ids, fault, FAULT_GATHER))                                 \
    KERNEL(INDEXING_THREADS) s_##Id##_##T(IndexGeometry geometry, T *RESTRICT out, const T *RESTRICT from, const Id *RESTRICT ids,   \
                                          const u32 *RESTRICT last, FaultWord *fault) { enter();                     \
        scatter<Id, T>(geometry, out, from, ids, last, fault);                                                            \
    }                                                                                                                \
    INDEXED(sa, Id, T, accumulate<Id, T>(geometry, out, from, ids, fault, FAULT_SCATTER_ADD))                             \
    INDEXED(ia, Id, T, accumulate<Id, T>(geometry, out, from, ids, fault, FAULT_INDEX_ADD))
FOR_ALL_DTYPES(ENTRY, u8)
FOR_ALL_DTYPES(ENTRY, u32)
FOR_ALL_DTYPES(ENTRY, i64)

#define MARK(Id)                                                                                                     \
    KERNEL(INDEXING_THREADS) smark_##Id(IndexGeometry geometry, u32 *RESTRICT last, const Id *RESTRICT ids, FaultWord *fault) { enter(); \
        mark<Id>(geometry, last, ids, fault);                                                                             \
    }
MARK(u8)
MARK(u32)
MARK(i64)
