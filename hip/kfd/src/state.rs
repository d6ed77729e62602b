//! Everything that the driver keeps for a process. It is made when a program first opens one of the driver's files. A forked child
//! has none of it: as with the real driver, it starts anew.

use crate::cards::Card;
use crate::config::{config, Config};
use crate::events::Events;
use crate::files::Tree;
use crate::memory::Memory;
use crate::queue::Queues;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once};
use vgpu::CodeCache;

/// The driver as one process sees it.
pub struct State {
    /// The settings.
    pub config: &'static Config,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// Their files below `/sys`.
    pub tree: Tree,
    /// Device memory.
    pub memory: Memory,
    /// Events.
    pub events: Events,
    /// Queues and their threads.
    pub queues: Queues,
    /// `/dev/kfd`.
    kfd: OwnedFd,
    /// All render nodes.
    render: OwnedFd,
    inodes: [(u64, u64); 2],
}

/// One emulated GPU.
pub struct Gpu {
    /// Its figures.
    pub card: &'static Card,
    /// The number by which calls name it.
    pub id: u32,
    /// `/dev/dri/renderD` of this number.
    pub minor: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Code that was decoded.
    pub code: Arc<CodeCache>,
}

/// Which of the driver's files a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// `/dev/kfd`.
    Kfd,
    /// `/dev/dri/renderD*`.
    Render,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

/// The state, if it was made.
pub fn existing() -> Option<&'static State> {
    // SAFETY: null, or a state that is never freed.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// The state, made where it is missing. `None` where nothing is emulated, or where the machine has no memory for it.
pub fn state() -> Option<&'static State> {
    if let Some(state) = existing() {
        return Some(state);
    }
    let config = config()?;
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handler only stores a pointer.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
    let made = match State::new(config) {
        Ok(state) => Box::into_raw(Box::new(state)),
        Err(why) => {
            crate::log::say!("kfd: the emulated driver cannot start: {why}");
            return None;
        }
    };
    match STATE.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made, and never freed from here on.
        Ok(_) => Some(unsafe { &*made }),
        Err(_) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            existing()
        }
    }
}

/// In a forked child: threads, queues and mappings were the parent's.
extern "C" fn forget() {
    STATE.store(std::ptr::null_mut(), Ordering::Release);
}

impl State {
    /// The driver for these GPUs.
    pub fn new(config: &'static Config) -> std::io::Result<Self> {
        let machine = physical_memory();
        let gpus: Vec<Gpu> = (0..)
            .zip(&config.cards)
            .map(|(n, &card)| Gpu {
                card,
                id: 0x1234 + n,
                minor: 128 + n,
                memory: config.memory.unwrap_or((card.memory.0 << 20).min(machine / 4 * 3)) & !0xfff,
                code: Arc::default(),
            })
            .collect();
        let kfd = memory_file("kfd", 4 << 32)?;
        // Sparse: offsets are never used twice, so that what was freed is gone.
        let render = memory_file("render", crate::memory::FILE_BYTES as i64)?;
        let inodes = [inode(&kfd)?, inode(&render)?];
        let memory = Memory::new(render.try_clone()?, gpus.iter().map(|gpu| gpu.memory).collect());
        let tree = Tree::new(&gpus, machine);
        Ok(Self {
            config,
            gpus,
            tree,
            memory,
            events: Events::default(),
            queues: Queues::default(),
            kfd,
            render,
            inodes,
        })
    }

    /// A new descriptor of one of the driver's files, or -1 with `errno`.
    pub fn open(&self, node: Node) -> i32 {
        let file = match node {
            Node::Kfd => &self.kfd,
            Node::Render => &self.render,
        };
        // SAFETY: a descriptor that is ours.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) }
    }

    /// Which of the driver's files a descriptor is, however it was copied.
    pub fn node(&self, descriptor: i32) -> Option<Node> {
        let found = raw_inode(descriptor).ok()?;
        match self.inodes.iter().position(|&inode| inode == found)? {
            0 => Some(Node::Kfd),
            _ => Some(Node::Render),
        }
    }

    /// The GPU that a call names.
    pub fn gpu(&self, id: u32) -> Result<usize, i32> {
        self.gpus.iter().position(|gpu| gpu.id == id).ok_or(libc::EINVAL)
    }
}

/// A sparse file in memory.
pub fn memory_file(name: &str, bytes: i64) -> std::io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: a string that lives through the call.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: a call with numbers only.
    if unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}

fn inode(file: &OwnedFd) -> std::io::Result<(u64, u64)> {
    raw_inode(file.as_raw_fd())
}

fn raw_inode(descriptor: i32) -> std::io::Result<(u64, u64)> {
    // SAFETY: zeros are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours; a descriptor that is not open is an error.
    if unsafe { libc::fstat(descriptor, &mut stat) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok((stat.st_dev, stat.st_ino))
}

fn physical_memory() -> u64 {
    // SAFETY: calls with numbers only.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(1 << 18) as u64).saturating_mul(size.max(4096) as u64)
}
