// What `#include <math.h>` finds: HIP's functions. The C library's own header lies behind it, for hip_host/math.h.
#ifdef HIP_HOST_WANTS_C_MATH
#include_next <math.h>
#else
#include "hip_host.h"
#endif
