//! Work that somebody has put off. A user of this crate may keep an operation back until its result is needed, so that it becomes part
//! of a later launch. The stream must know of it: before memory that such an operation reads is written to, before a capture begins or
//! a graph runs, and before anybody waits for the stream, it has to be submitted. The list of it is here.

use crate::buffer::Buffer;
use crate::element::DeviceCopy;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::view::View;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An operation that was put off.
pub trait PutOff: Send + Sync {
    /// Whether it is still to be submitted, and would read `memory` then. It is asked from within launches: it takes no lock.
    fn reads(&self, memory: MemoryId) -> bool;

    /// Submits it, if that was not done yet. Its operands are let go.
    fn settle(&self) -> Result<()>;

    /// Gives it up, because of `why`: whoever needs its result gets an error. It is not submitted any more.
    fn abandon(&self, why: &Error);
}

/// Which memory a buffer or a view is of. Two handles of one memory have the same, as long as one of them lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryId(usize);

/// So many operations of a stream are put off at a time: each keeps its operands in memory.
const MOST: usize = 16;

/// What was put off on a stream.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The length of the list, so that the common path takes no lock.
    count: AtomicUsize,
    list: Mutex<VecDeque<Weak<dyn PutOff>>>,
    order: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// What is still there, oldest first. The list forgets the rest.
    fn alive(&self) -> Vec<Arc<dyn PutOff>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut list = lock(&self.list);
        let mut alive = Vec::with_capacity(list.len());
        list.retain(|entry| match entry.upgrade() {
            Some(entry) => {
                alive.push(entry);
                true
            }
            None => false,
        });
        self.count.store(list.len(), Ordering::Release);
        alive
    }
}

impl Stream {
    /// Notes an operation that was put off. Where there are many already, the oldest is submitted; should that fail, whoever needs its
    /// result will hear of it.
    pub fn put_off(&self, operation: &Arc<dyn PutOff>) {
        let waiting = &self.0.waiting;
        let oldest = {
            let mut list = lock(&waiting.list);
            list.push_back(Arc::downgrade(operation));
            if list.len() > MOST {
                list.retain(|entry| entry.strong_count() > 0);
            }
            let oldest = if list.len() > MOST { list.pop_front() } else { None };
            waiting.count.store(list.len(), Ordering::Release);
            oldest
        };
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            if oldest.settle().is_err() {
                // It still reads its operands when somebody tries again: writers must find it.
                let mut list = lock(&waiting.list);
                list.push_back(Arc::downgrade(&oldest));
                waiting.count.store(list.len(), Ordering::Release);
            }
        }
    }

    /// Submits all that was put off.
    pub fn settle(&self) -> Result<()> {
        self.0.waiting.alive().iter().try_for_each(|operation| operation.settle())
    }

    /// Gives up all that was put off.
    pub(crate) fn abandon_all(&self, why: &Error) {
        self.0.waiting.alive().iter().for_each(|operation| operation.abandon(why));
    }

    /// Submits what was put off and reads `memory`, which is about to be written.
    pub fn settle_readers(&self, memory: MemoryId) -> Result<()> {
        let mut readers = self.0.waiting.alive();
        readers.retain(|operation| operation.reads(memory));
        if readers.is_empty() {
            return Ok(());
        }
        // Somebody may be making one launch of several of these: then their reads come first.
        let _order = self.order_put_off();
        readers.iter().try_for_each(|operation| operation.settle())
    }

    /// As [`Stream::settle_readers`], for those who write in any case: what could not be submitted is given up.
    pub fn abandon_readers(&self, memory: MemoryId) {
        if self.settle_readers(memory).is_ok() {
            return;
        }
        let mut readers = self.0.waiting.alive();
        readers.retain(|operation| operation.reads(memory));
        for operation in readers {
            if let Err(error) = operation.settle() {
                operation.abandon(&error);
            }
        }
    }

    /// Held by whoever looks into operations that were put off and submits a launch that reads their operands in their place: a writer
    /// of these waits until it is submitted.
    pub fn order_put_off(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.waiting.order)
    }
}

impl<T: DeviceCopy> Buffer<T> {
    /// A second handle of the same memory, which lives as long as one of them does. What is written through one is seen through both.
    pub fn share(&self) -> Self {
        self.again()
    }

    /// Tells this memory from all other.
    pub fn memory_id(&self) -> MemoryId {
        self.view().memory_id()
    }
}

impl<T: DeviceCopy> View<'_, T> {
    /// Tells the memory that this is part of from all other.
    pub fn memory_id(&self) -> MemoryId {
        MemoryId(Arc::as_ptr(self.block()).addr())
    }
}
