//! A progress bar of one line, as wide as the terminal is at that moment, and a reader that moves it. It appears only where
//! standard error is a terminal, and its line is empty again when it is gone.

use super::is_interactive;
use std::io::{Read, Result, Seek, SeekFrom, Write};

/// A bar on standard error.
pub struct Bar {
    label: String,
    total: u64,
    done: u64,
    /// The hundredth that is drawn; none where nobody looks.
    drawn: Option<u64>,
}

impl Bar {
    /// A bar for so many bytes, empty.
    pub fn new(label: &str, total: u64) -> Self {
        let mut bar = Self { label: label.to_owned(), total, done: 0, drawn: is_interactive().then_some(u64::MAX) };
        bar.advance(0);
        bar
    }

    /// So many bytes more are there.
    pub fn advance(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes).min(self.total);
        let percent = self.done * 100 / self.total.max(1);
        if self.drawn.is_some_and(|drawn| drawn != percent) {
            self.drawn = Some(percent);
            // Asked every time: the window may have been resized.
            let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| size.ws_col.into());
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K{}", frame(&self.label, percent, width));
            let _ = out.flush();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// One picture of the bar. It leaves the last column free, where a terminal would start a new line.
fn frame(label: &str, percent: u64, width: usize) -> String {
    let number = format!(" {percent:3}%");
    let room = width.saturating_sub(label.chars().count() + number.len() + 4);
    if room == 0 {
        return format!("{percent}%").chars().take(width.saturating_sub(1)).collect();
    }
    let full = room * percent as usize / 100;
    format!("{label} [{}{}]{number}", "=".repeat(full), " ".repeat(room - full))
}

/// A reader that shows how far it is.
pub struct Counted<R> {
    inner: R,
    bar: Bar,
}

impl<R> Counted<R> {
    /// Counts what `inner` gives against `total` bytes.
    pub fn new(inner: R, label: &str, total: u64) -> Self {
        Self { inner, bar: Bar::new(label, total) }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.inner.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn a_frame_fits_every_width_and_grows_with_it() {
        for width in 1..200 {
            for percent in [0, 1, 50, 99, 100] {
                assert!(
                    frame("loading", percent, width).chars().count() < width.max(1),
                    "{percent}% in {width} columns"
                );
            }
        }
        assert_eq!(frame("loading", 50, 26), "loading [=====     ]  50%");
        assert_eq!(frame("loading", 100, 26), "loading [==========] 100%");
        assert_eq!(frame("loading", 50, 10), "50%");
    }
}
