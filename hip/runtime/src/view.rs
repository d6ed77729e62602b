//! Parts of buffers, borrowed: to read ([`View`]) and to write ([`ViewMut`]). A range beyond the end is an error, not a panic.

use crate::buffer::{Block, Buffer};
use crate::device::Device;
use crate::element::{DeviceCopy, DevicePtr};
use crate::error::{Error, Result};
use crate::stream::Stream;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Elements of a buffer, to read.
pub struct View<'a, T> {
    address: DevicePtr<T>,
    len: usize,
    block: &'a Arc<Block>,
}

/// Elements of a buffer, to write.
pub struct ViewMut<'a, T> {
    address: DevicePtr<T>,
    len: usize,
    block: &'a Arc<Block>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

/// What both kinds of view have in common.
macro_rules! common {
    ($view:ident) => {
        impl<'a, T: DeviceCopy> $view<'a, T> {
            pub(crate) fn new(block: &'a Arc<Block>, address: DevicePtr<T>, len: usize) -> Self {
                Self { address, len, block }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// True when there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// The number of bytes.
            pub fn bytes(&self) -> usize {
                self.len * size_of::<T>()
            }

            /// The stream that the buffer belongs to.
            pub fn stream(&self) -> &'a Stream {
                self.block.stream()
            }

            /// The device it is on.
            pub fn device(&self) -> &'a Device {
                self.block.stream().device()
            }

            /// The address of the first element, for kernels.
            pub fn ptr(&self) -> DevicePtr<T> {
                self.address
            }

            pub(crate) fn address_field(&self) -> *const DevicePtr<T> {
                &self.address
            }

            /// While the stream is being captured, lets the graph keep the memory, for work recorded next that names its address.
            #[inline]
            pub fn keep_in_capture(&self) {
                if let Some(session) = self.stream().session() {
                    session.keep_block(self.block);
                }
            }

            /// Some of these elements. A range beyond the end is an error.
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let (start, end) = resolve(range, self.len)?;
                Ok(Self { address: self.address.offset(start), len: end - start, block: self.block })
            }

            /// The same bytes as elements of another type, of which they must hold a whole number, suitably aligned.
            pub fn cast<U: DeviceCopy>(self) -> Result<$view<'a, U>> {
                let len = cast_len::<T, U>(self.address, self.len)?;
                Ok($view { address: self.address.cast(), len, block: self.block })
            }
        }

        impl<T> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} x {} at {:?})", stringify!($view), self.len, std::any::type_name::<T>(), self.address)
            }
        }
    };
}
common!(View);
common!(ViewMut);

impl<'a, T: DeviceCopy> View<'a, T> {
    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.block
    }
}

impl<'a, T: DeviceCopy> ViewMut<'a, T> {
    /// A shorter borrow of the same elements.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { address: self.address, len: self.len, block: self.block }
    }

    /// The same elements, to read.
    pub fn as_view(&self) -> View<'_, T> {
        View { address: self.address, len: self.len, block: self.block }
    }

    /// Two parts that can be written independently: the first `middle` elements, and the rest.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self)> {
        if middle > self.len {
            return Err(beyond(middle, middle, self.len));
        }
        let (len, address, block) = (self.len, self.address, self.block);
        Ok((Self { address, len: middle, block }, Self { address: address.offset(middle), len: len - middle, block }))
    }
}

impl<'a, T: DeviceCopy> From<&'a Buffer<T>> for View<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.view()
    }
}

impl<'a, T: DeviceCopy> From<&'a mut Buffer<T>> for ViewMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.view_mut()
    }
}

impl<'a, T: DeviceCopy> From<&'a ViewMut<'_, T>> for View<'a, T> {
    fn from(view: &'a ViewMut<'_, T>) -> Self {
        view.as_view()
    }
}

fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start > end || end > len {
        return Err(beyond(start, end, len));
    }
    Ok((start, end))
}

#[cold]
fn beyond(start: usize, end: usize, len: usize) -> Error {
    Error::refused(format!("the range {start}..{end} does not lie within a buffer of {len} elements"))
}

/// The number of `U`s in `len` `T`s at `address`, when they can be seen so.
pub(crate) fn cast_len<T, U>(address: DevicePtr<T>, len: usize) -> Result<usize> {
    let bytes = len * size_of::<T>();
    let whole = size_of::<U>() != 0 && bytes.is_multiple_of(size_of::<U>());
    if !whole || !address.address().is_multiple_of(align_of::<U>() as u64) {
        return Err(Error::refused(format!(
            "{bytes} bytes of {} at {address:?} cannot be seen as elements of {}: they must be a whole number, and aligned to {}",
            std::any::type_name::<T>(),
            std::any::type_name::<U>(),
            align_of::<U>()
        )));
    }
    Ok(bytes / size_of::<U>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_resolve_or_are_refused() {
        assert_eq!(resolve(.., 5).unwrap(), (0, 5));
        assert_eq!(resolve(2..=3, 5).unwrap(), (2, 4));
        assert_eq!(resolve(5.., 5).unwrap(), (5, 5));
        assert!(resolve(0..6, 5).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = resolve(3..2, 5);
        assert!(backwards.unwrap_err().to_string().contains("3..2"));
        assert!(resolve(0..=usize::MAX, 5).is_err());
    }

    #[test]
    fn casts_need_whole_aligned_elements() {
        let even = DevicePtr::<u8>::from_address(0x1000);
        assert_eq!(cast_len::<u8, f32>(even, 12).unwrap(), 3);
        assert!(cast_len::<u8, f32>(even, 13).is_err());
        assert!(cast_len::<u8, f32>(even.offset(2), 12).is_err());
    }
}
