//! Memory as kernels see it: the device's, which all threads may write, and a block's own. These types are what rustc checks kernels against;
//! a device function that is called on the host finds ordinary memory behind them.

use super::number::{AtomicInteger, AtomicNumber};
use crate::element::DeviceCopy;
use bytemuck::Zeroable;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// Elements of device memory that a kernel reads and writes. All threads have the same; which of them writes an element is the kernel's
/// business. In a kernel an index out of range reads zero and writes nothing, and [`check`](super::check) reports it.
#[repr(transparent)]
pub struct GlobalMut<T>([T]);

/// Memory that the threads of a block share, an array. It is made at the start of a kernel, and holds anything until it is written.
#[derive(Clone, Copy, Debug)]
pub struct Shared<A>(A);

impl<T> GlobalMut<T> {
    /// Host memory, to call a device function with.
    pub fn from_mut(elements: &mut [T]) -> &mut Self {
        // SAFETY: the type is a slice by another name (`repr(transparent)`), and the lifetime is the same.
        unsafe { &mut *(std::ptr::from_mut(elements) as *mut Self) }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: DeviceCopy> GlobalMut<T> {
    /// The element; zero where there is none.
    pub fn get(&self, index: usize) -> T {
        self.0.get(index).copied().unwrap_or_else(T::zeroed)
    }

    /// Writes the element, if it is there.
    pub fn set(&mut self, index: usize, value: T) {
        if let Some(element) = self.0.get_mut(index) {
            *element = value;
        }
    }
}

impl<T> Index<usize> for GlobalMut<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.0[index]
    }
}

impl<T> IndexMut<usize> for GlobalMut<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.0[index]
    }
}

impl<A: Zeroable> Shared<A> {
    /// The memory, once for each block.
    #[allow(clippy::new_without_default)] // It is no value: only a `let` of a kernel makes one.
    pub fn new() -> Self {
        Self(A::zeroed())
    }
}

impl<A> Deref for Shared<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A> DerefMut for Shared<A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}

/// Changes an element if it is there, and gives what it was.
fn change<T: DeviceCopy>(elements: &mut [T], index: usize, new: impl FnOnce(T) -> T) -> T {
    match elements.get_mut(index) {
        Some(element) => {
            let old = *element;
            *element = new(old);
            old
        }
        None => T::zeroed(),
    }
}

macro_rules! atomics {
    ($([$($head:tt)*] $name:ty, $bound:ident { $($method:ident $(($expected:ident))? $value:ident $doc:literal $new:expr;)* })*) => {$(
        impl<T: $bound, $($head)*> $name {
            $(
                #[doc = $doc]
                pub fn $method(&mut self, index: usize, $($expected: T,)? $value: T) -> T {
                    #[allow(clippy::redundant_closure_call)]
                    change(&mut self.0, index, |old| ($new)(old, $value $(, $expected)?))
                }
            )*
        }
    )*};
}

macro_rules! both {
    ($bound:ident $methods:tt) => {
        atomics! {
            [] GlobalMut<T>, $bound $methods
            [const N: usize] Shared<[T; N]>, $bound $methods
        }
    };
}

both!(AtomicNumber {
    atomic_add value "Adds to the element in one step, and gives what it was." AtomicNumber::sum;
    atomic_sub value "Subtracts from the element in one step, and gives what it was." AtomicNumber::difference;
    atomic_exchange value "Writes the element in one step, and gives what it was." |_, new| new;
});
both!(AtomicInteger {
    atomic_min value "Writes the smaller one in one step, and gives what it was." Ord::min;
    atomic_max value "Writes the larger one in one step, and gives what it was." Ord::max;
    atomic_and value "Keeps the bits of both in one step, and gives what it was." |old, new| old & new;
    atomic_or value "Adds bits in one step, and gives what it was." |old, new| old | new;
    atomic_xor value "Turns bits around in one step, and gives what it was." |old, new| old ^ new;
    atomic_compare_exchange (expected) value "Writes `value` in one step if the element is `expected`, and gives what it was."
        |old, new, expected| if old == expected { new } else { old };
});
