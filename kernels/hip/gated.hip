// Gated linear units: activation(a) * b, as the two operations one after the other would round it. f16, bf16 and f32, which models have.
#include "activation.h"

#define GATED(T, name, Activation)                                                                                     \
    struct name##_##T##_op {                                                                                           \
        static constexpr bool heavy = Activation<T>::heavy;                                                            \
        static MEMBER T apply(const Params &params, T a, T b) {                                                        \
            return cast<T>(widen(Activation<T>::apply(params, a)) * widen(b));                                         \
        }                                                                                                              \
    };                                                                                                                 \
    ELEMENTWISE_2(name##_##T, T, T, T, name##_##T##_op)
#define GATED_ALL(name, Activation) GATED(bf16, name, Activation) GATED(f16, name, Activation) GATED(f32, name, Activation)

GATED_ALL(gsilu, Silu)
GATED_ALL(ggelu, Gelu)
