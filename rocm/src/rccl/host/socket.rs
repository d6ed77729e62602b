//! What the standard library has no words for on local sockets: who is at the other end, sending a file, and waiting for several.

use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The user at the other end.
pub struct Credentials(libc::ucred);

impl Credentials {
    pub fn of(stream: &UnixStream) -> Option<Self> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the place is ours and as long as said.
        let code = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &mut bytes,
            )
        };
        (code == 0).then_some(Self(found))
    }

    /// Whether it is the user that this process runs as.
    pub fn is_this_user(&self) -> bool {
        // SAFETY: the call takes nothing and cannot fail.
        self.0.uid == unsafe { libc::geteuid() }
    }
}

/// Room for one descriptor beside a message.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// Sends a byte, and a file with it.
pub fn send(stream: &UnixStream, mut byte: u8, file: Option<RawFd>) -> Result<()> {
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut beside = Beside([0; 64]);
    // SAFETY: zeros are a valid message header; the pointers put into it live until the call is over, and CMSG_* stay inside `beside`,
    // which is larger than one descriptor needs.
    let sent = unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        if let Some(file) = file {
            message.msg_control = (&raw mut beside).cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(file);
        }
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    match sent {
        1 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Receives what [`send`] sent.
pub fn receive(stream: &UnixStream) -> Result<(u8, Option<OwnedFd>)> {
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut beside = Beside([0; 64]);
    // SAFETY: as in `send`; a descriptor that arrives is a new one of this process, and nobody else has it.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        message.msg_control = (&raw mut beside).cast();
        message.msg_controllen = size_of::<Beside>();
        match libc::recvmsg(stream.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) {
            1 => {}
            0 => return Err(Error::from(std::io::ErrorKind::UnexpectedEof)),
            _ => return Err(Error::last_os_error()),
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        let has_file =
            !header.is_null() && (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS;
        let file = has_file.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()));
        Ok((byte, file))
    }
}

/// Waits until something happens at one of the sockets; without a time, however long that takes. Says at which the other end is gone.
pub fn poll(descriptors: &[RawFd], patience: Option<Duration>) -> Vec<bool> {
    let mut all: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 })
        .collect();
    let milliseconds = patience.map_or(-1, |patience| patience.as_millis() as libc::c_int);
    // SAFETY: the list is ours and that long.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
    all.iter().map(|one| one.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR) != 0).collect()
}
