// A kernel with a fault, which the book's page about emulated GPUs shows: what one wave writes, another one reads without a barrier in between.
extern "C" __global__ void k(const unsigned *in, unsigned *out) {
    __shared__ unsigned tile[128];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    out[t] = tile[t / 4];
}
