//! Resetting a device ends everything on it, so this test has a process of its own.

mod common;

use common::gpu::{ok, Memory};
use common::platform;

#[test]
fn after_a_reset_every_thread_starts_afresh() {
    let Some((hip, _alone)) = platform() else { return };
    let before = Memory::with(hip, &[1.0; 8]);
    assert_eq!(before.read::<f32>(), [1.0; 8]);
    std::mem::forget(before); // The reset frees it.
    ok!(hip, hipDeviceReset());
    for _ in 0..2 {
        assert_eq!(Memory::with(hip, &[2.0; 8]).read::<f32>(), [2.0; 8]);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(Memory::with(hip, &[3.0; 8]).read::<f32>(), [3.0; 8]));
        });
        ok!(hip, hipDeviceReset());
    }
}
