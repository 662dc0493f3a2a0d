//! What asks a process to stop.

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

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// SIGTERM: what runs the process. On Windows, a console that closes.
    Terminate,
    /// SIGINT or Ctrl-C: a person, who waits.
    Interrupt,
}

/// The signals that ask. Once they are listened for, none ends the process by itself.
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
    /// Listens from now on; inside an async runtime.
    #[cfg(unix)]
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Listens from now on; inside an async runtime.
    #[cfg(windows)]
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { terminate: ctrl_close()?, interrupt: ctrl_c()? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Ask {
        tokio::select! {
            _ = self.interrupt.recv() => Ask::Interrupt,
            _ = self.terminate.recv() => Ask::Terminate,
        }
    }
}
