//! The embedded device.
