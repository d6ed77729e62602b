//! The pool's bookkeeping against a system that is only a counter: growing contexts, steady states, random traffic.

use super::*;
