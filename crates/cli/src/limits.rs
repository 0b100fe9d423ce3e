//! Bounds that the operating system sets.

/// Each socket is a file: takes as many as the system allows.
#[cfg(unix)]
pub fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there are fewer sockets, which is said when they run out.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Files this process may raise its bound to; `None` when there is no bound.
#[cfg(unix)]
pub fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

/// Files this process may have open as it is now; `None` when there is no bound.
#[cfg(unix)]
pub fn granted_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Elsewhere there is no such bound.
#[cfg(not(unix))]
pub fn granted_files() -> Option<u64> {
    None
}

/// Elsewhere there is no such bound to raise.
#[cfg(not(unix))]
pub fn raise_open_files() {}

/// Elsewhere there is no such bound.
#[cfg(not(unix))]
pub fn open_files() -> Option<u64> {
    None
}
