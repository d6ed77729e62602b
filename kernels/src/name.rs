//! Kernel names, put together on the stack: `root_dtype[_dtype][_variant]`.

use crate::dtype::DType;

const CAPACITY: usize = 64;

/// A kernel's name.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Name {
    /// `root`, then `_` and the suffix of each dtype.
    pub fn new(root: &str, dtypes: &[DType]) -> Self {
        let mut name = Self { bytes: [0; CAPACITY], len: 0 };
        name.append(root);
        for dtype in dtypes {
            name.append("_");
            name.append(dtype.suffix());
        }
        name
    }

    /// The name with more at its end. What does not fit is left out, which makes it the name of no kernel.
    pub fn push(mut self, text: &str) -> Self {
        self.append(text);
        self
    }

    /// In place: every launch puts a name together, and a processor waits for bytes that it just wrote to copy them.
    fn append(&mut self, text: &str) {
        if let Some(space) = self.bytes.get_mut(self.len..self.len + text.len()) {
            space.copy_from_slice(text.as_bytes());
            self.len += text.len();
        }
    }
}

/// For looking it up, which needs no text.
impl AsRef<[u8]> for Name {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
