//! Events: what host threads wait for. A queue sets one when a signal completes; failures are events too, with a payload that says
//! what happened.

use crate::abi::{event, CreateEvent, EventData, WaitEvents};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most events of a process. Number 0 is never given out.
pub const LIMIT: usize = 4096;

const COMPLETE: u32 = 0;
const TIMEOUT: u32 = 1;
/// The timeout that means no timeout.
const FOREVER: u32 = u32::MAX;

#[derive(Clone, Default)]
struct Event {
    used: bool,
    kind: u32,
    auto_reset: bool,
    set: bool,
    payload: [u32; 8],
}

/// All events of a process.
pub struct Events {
    table: Mutex<Vec<Event>>,
    changed: Condvar,
}

impl Default for Events {
    fn default() -> Self {
        Self { table: Mutex::new(vec![Event::default(); LIMIT]), changed: Condvar::new() }
    }
}

impl Events {
    /// A new event; the error is a number of `errno`.
    pub fn create(&self, request: &mut CreateEvent, page_offset: u64) -> Result<(), i32> {
        let mut table = self.lock();
        let id = (1..LIMIT).find(|&id| !table[id].used).ok_or(libc::ENOSPC)?;
        table[id] = Event { used: true, kind: request.kind, auto_reset: request.auto_reset != 0, ..Event::default() };
        request.event_id = id as u32;
        request.trigger = id as u32;
        if matches!(request.kind, event::SIGNAL | event::DEBUG) {
            // Not 0: the page where hardware would leave its mark is mapped, and nobody looks there.
            request.page_offset = page_offset;
            request.slot = id as u32;
        }
        Ok(())
    }

    /// An event is no longer there; whoever waits for it looks again.
    pub fn destroy(&self, id: u32) -> Result<(), i32> {
        let mut table = self.lock();
        *find(&mut table, id)? = Event::default();
        self.changed.notify_all();
        Ok(())
    }

    /// Wakes whoever waits for the event.
    pub fn set(&self, id: u32) -> Result<(), i32> {
        let mut table = self.lock();
        find(&mut table, id)?.set = true;
        self.changed.notify_all();
        Ok(())
    }

    /// The event has not happened.
    pub fn reset(&self, id: u32) -> Result<(), i32> {
        find(&mut self.lock(), id)?.set = false;
        Ok(())
    }

    /// Sets all events of a kind, with what they have to say. Says whether anybody listens.
    pub fn raise(&self, kind: u32, payload: [u32; 8]) -> bool {
        let mut table = self.lock();
        let mut found = false;
        for event in table.iter_mut().filter(|event| event.used && event.kind == kind) {
            (event.set, event.payload) = (true, payload);
            found = true;
        }
        self.changed.notify_all();
        found
    }

    /// Waits for one or all of the events that the caller lists.
    pub fn wait(&self, request: &mut WaitEvents, list: &mut [EventData]) -> Result<(), i32> {
        let deadline =
            (request.timeout != FOREVER).then(|| Instant::now() + Duration::from_millis(u64::from(request.timeout)));
        let mut table = self.lock();
        loop {
            let mut ready = 0;
            for data in list.iter() {
                ready += usize::from(find(&mut table, data.event_id)?.set);
            }
            if ready > 0 && (request.all == 0 || ready == list.len()) {
                break;
            }
            table = match deadline {
                None => self.changed.wait(table).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        request.result = TIMEOUT;
                        return Ok(());
                    }
                    self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        for data in list {
            let event = find(&mut table, data.event_id)?;
            if event.set {
                if matches!(event.kind, event::MEMORY | event::HW_EXCEPTION) {
                    data.payload = event.payload;
                }
                event.set &= !event.auto_reset;
            }
        }
        request.result = COMPLETE;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(table: &mut [Event], id: u32) -> Result<&mut Event, i32> {
    table.get_mut(id as usize).filter(|event| event.used).ok_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn create(events: &Events, kind: u32, auto_reset: bool) -> u32 {
        let mut request = CreateEvent {
            page_offset: 0,
            trigger: 0,
            kind,
            auto_reset: u32::from(auto_reset),
            node: 0,
            event_id: 0,
            slot: 0,
        };
        events.create(&mut request, 7).unwrap();
        request.event_id
    }

    fn wait(events: &Events, ids: &[u32], all: bool, timeout: u32) -> Result<u32, i32> {
        let mut list: Vec<EventData> =
            ids.iter().map(|&event_id| EventData { payload: [0; 8], extension: 0, event_id, pad: 0 }).collect();
        let mut request =
            WaitEvents { list: 0, count: ids.len() as u32, all: u32::from(all), timeout, result: u32::MAX };
        events.wait(&mut request, &mut list)?;
        Ok(request.result)
    }

    #[test]
    fn one_of_two_or_both() {
        let events = Events::default();
        let (a, b) = (create(&events, event::SIGNAL, true), create(&events, event::SIGNAL, false));
        assert_eq!(wait(&events, &[a, b], false, 0), Ok(TIMEOUT));
        events.set(b).unwrap();
        assert_eq!(wait(&events, &[a, b], true, 0), Ok(TIMEOUT));
        assert_eq!(wait(&events, &[a, b], false, 0), Ok(COMPLETE));
        events.set(a).unwrap();
        assert_eq!(wait(&events, &[a, b], true, 0), Ok(COMPLETE));
        // The first resets itself, the second does not.
        assert_eq!(wait(&events, &[a], false, 0), Ok(TIMEOUT));
        assert_eq!(wait(&events, &[b], false, 0), Ok(COMPLETE));
        events.reset(b).unwrap();
        assert_eq!(wait(&events, &[b], false, 0), Ok(TIMEOUT));
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let events = Arc::new(Events::default());
        let id = create(&events, event::SIGNAL, true);
        let waiter = std::thread::spawn({
            let events = events.clone();
            move || wait(&events, &[id], false, FOREVER)
        });
        events.set(id).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(COMPLETE));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let events = Events::default();
        assert_eq!(events.set(0), Err(libc::EINVAL));
        assert_eq!(events.set(5000), Err(libc::EINVAL));
        assert_eq!(wait(&events, &[1], false, 0), Err(libc::EINVAL));
        let id = create(&events, event::SIGNAL, true);
        events.destroy(id).unwrap();
        assert_eq!(events.destroy(id), Err(libc::EINVAL));
    }
}
