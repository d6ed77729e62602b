//! `--device`: which Candle device a command runs on, and the line that tells a person.

use crate::failure::Result;
use candle_core::Device;
use std::str::FromStr;

/// What `--device` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A ROCm device; the embedded one where there is no AMD GPU.
    Rocm(usize),
    /// Candle's own CPU backend.
    Cpu,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let refuse = || format!("there is no device {text:?}: say rocm, rocm:1 (a number from 0), or cpu");
        match text {
            "cpu" => Ok(Self::Cpu),
            "rocm" => Ok(Self::Rocm(0)),
            other => {
                other.strip_prefix("rocm:").and_then(|ordinal| ordinal.parse().ok()).map(Self::Rocm).ok_or_else(refuse)
            }
        }
    }
}

impl Choice {
    /// Opens the device, with a line on what it is and why it was chosen.
    pub fn open(self) -> Result<(Device, String)> {
        let Self::Rocm(ordinal) = self else {
            return Ok((Device::Cpu, "Candle's CPU backend, as asked".to_owned()));
        };
        let device = Device::new_rocm(ordinal)?;
        let hip = hip::Device::new(ordinal)?;
        // The first line is the reason; `info` shows the advice that may follow it.
        let why = hip.platform().why().lines().next().unwrap_or_default();
        let line = format!("{} ({}): {why}", hip.name(), hip.arch());
        Ok((device, line))
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;

    #[test]
    fn names_of_devices() {
        assert_eq!("rocm".parse(), Ok(Choice::Rocm(0)));
        assert_eq!("rocm:3".parse(), Ok(Choice::Rocm(3)));
        assert_eq!("cpu".parse(), Ok(Choice::Cpu));
        for wrong in ["gpu", "rocm:", "rocm:x", "rocm:-1", ""] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong:?}");
        }
    }
}
