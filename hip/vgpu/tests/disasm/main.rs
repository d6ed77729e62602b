//! The disassembler against LLVM's: on random words, on compiled objects, on LLVM's own test vectors.

mod llvm;
mod objects;
mod random;
mod vectors;
