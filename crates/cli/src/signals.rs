//! What asks a process to end.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C anywhere, SIGTERM and SIGHUP on Unix, closing and shutting down on Windows. From [`Signals::listen`] on none of
/// them ends the process by itself, so it is called before anything is made that must not stay behind.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    unix: [Option<Signal>; 3],
    #[cfg(windows)]
    windows: Option<(
        tokio::signal::windows::CtrlC,
        tokio::signal::windows::CtrlClose,
        tokio::signal::windows::CtrlShutdown,
    )>,
}

impl Signals {
    /// Listens from now on. A signal that cannot be listened for keeps its default action.
    pub fn listen() -> Self {
        Self {
            #[cfg(unix)]
            unix: [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
                .map(|kind| signal(kind).ok()),
            #[cfg(windows)]
            windows: {
                use tokio::signal::windows::{ctrl_c, ctrl_close, ctrl_shutdown};
                ctrl_c().and_then(|c| Ok((c, ctrl_close()?, ctrl_shutdown()?))).ok()
            },
        }
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        async fn wait(signal: &mut Option<Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        let [interrupt, terminate, hang_up] = &mut self.unix;
        tokio::select! {
            () = wait(interrupt) => {}
            () = wait(terminate) => {}
            () = wait(hang_up) => {}
        }
    }

    /// Waits for the next one.
    #[cfg(windows)]
    pub async fn next(&mut self) {
        match &mut self.windows {
            Some((c, close, shutdown)) => tokio::select! {
                _ = c.recv() => {}
                _ = close.recv() => {}
                _ = shutdown.recv() => {}
            },
            None => std::future::pending().await,
        }
    }

    /// Waits for the next one: here they all keep their default action.
    #[cfg(not(any(unix, windows)))]
    pub async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Waits until standard input is closed.
pub async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    // A thread of its own: a pending read of standard input cannot be cancelled, and nobody waits for this thread.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}
