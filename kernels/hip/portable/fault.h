// Bad input that only a kernel can see (an index out of range, an integer divided by zero): the first one is
// written into three words of device memory, which the host reads when it synchronises or copies back anyway.
// The kernel goes on without touching memory outside its tensors, so nothing waits and nothing is lost.
#pragma once

struct FaultWord {
    u64 code;  // 0: none; set once, by the thread whose details follow
    i64 value; // the offending id
    u64 bound; // what it had to be less than
};
SHARE_LAYOUT(FaultWord, code, value, bound)

// Operations that can report.
enum FaultCode : u32 {
    FAULT_INDEX_SELECT = 1,
    FAULT_GATHER = 2,
    FAULT_SCATTER = 3,
    FAULT_SCATTER_ADD = 4,
    FAULT_INDEX_ADD = 5,
    FAULT_DIVISION = 6,
    FAULT_EMBEDDING = 7,
    FAULT_EXPERT = 8,
    FAULT_ROUTE = 9,
};
SHARE(FAULT_INDEX_SELECT)
SHARE(FAULT_GATHER)
SHARE(FAULT_SCATTER)
SHARE(FAULT_SCATTER_ADD)
SHARE(FAULT_INDEX_ADD)
SHARE(FAULT_DIVISION)
SHARE(FAULT_EMBEDDING)
SHARE(FAULT_EXPERT)
SHARE(FAULT_ROUTE)

DEVICE void report(FaultWord *fault, FaultCode code, i64 value, u64 bound) {
    if (read_shared_word(&fault->code) != 0) return;
    if (swap_if(&fault->code, (u64)0, (u64)code) == 0) {
        fault->value = value;
        fault->bound = bound;
    }
}
