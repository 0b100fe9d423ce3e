//! What asks a process to end.

/// Waits for the next such signal: Ctrl-C anywhere, SIGTERM and SIGHUP on Unix, closing and shutting down on Windows.
pub async fn next() {
    tokio::select! {
        () = ctrl_c() => {}
        () = asked_to_end() => {}
    }
}

#[cfg(unix)]
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    // Where a signal cannot be listened for, its default action ends the process anyway.
    let wait = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}

#[cfg(windows)]
async fn asked_to_end() {
    use tokio::signal::windows;
    match (windows::ctrl_close(), windows::ctrl_shutdown()) {
        (Ok(mut close), Ok(mut shutdown)) => tokio::select! {
            _ = close.recv() => {}
            _ = shutdown.recv() => {}
        },
        _ => std::future::pending().await,
    }
}

#[cfg(not(any(unix, windows)))]
async fn asked_to_end() {
    std::future::pending().await
}

async fn ctrl_c() {
    // Where the signal cannot be listened for, its default action ends the process anyway.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
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
