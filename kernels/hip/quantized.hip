// The block formats of quantized tensors, and the kernels over them: dequantize, mat-vec, tiled matrix product.
#include "portable.h"
