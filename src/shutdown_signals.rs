//! Shutdown signals.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::Signal;
#[cfg(unix)]
use tokio::signal::unix::SignalKind;
#[cfg(unix)]
use tokio::signal::unix::signal;
#[cfg(windows)]
use tokio::signal::windows::CtrlC;
#[cfg(windows)]
use tokio::signal::windows::CtrlClose;
#[cfg(windows)]
use tokio::signal::windows::ctrl_c;
#[cfg(windows)]
use tokio::signal::windows::ctrl_close;

/// The kind of a shutdown signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// SIGTERM, from the supervisor of the process. On Windows, a console that closes.
    Terminate,
    /// SIGINT or Ctrl-C, from a person, who waits for the process to end.
    Interrupt,
}

/// The signals. After [`install`](Self::install), no signal ends the process by itself.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(windows)]
    terminate: CtrlClose,
    #[cfg(windows)]
    interrupt: CtrlC,
}

impl Signals {
    /// Listens for signals from now on; must be called inside an async runtime.
    #[cfg(unix)]
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Listens for signals from now on; must be called inside an async runtime.
    #[cfg(windows)]
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { terminate: ctrl_close()?, interrupt: ctrl_c()? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => StopRequest::Interrupt,
            _ = self.terminate.recv() => StopRequest::Terminate,
        }
    }
}
