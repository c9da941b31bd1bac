//! Connections, from the first to Ctrl-C.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::routes::{Site, router};

/// Connections at once; more wait to be taken.
const CONNECTIONS: usize = 64;

/// Bytes and lines of a request's head.
const HEAD: usize = 64 * 1024;
const LINES: usize = 64;

/// How long answers may go on after Ctrl-C.
const FAREWELL: Duration = Duration::from_secs(3);

/// Answers until Ctrl-C.
pub fn serve(listener: TcpListener, site: Site) -> io::Result<()> {
    // one thread answers, runs of a model have another, and the threads of the model are its own
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
    let patience = site.limits.read;
    let done = runtime.block_on(until_stopped(listener, router(site), patience));
    runtime.shutdown_timeout(Duration::ZERO); // a run that still goes on is for nobody
    done
}

async fn until_stopped(listener: TcpListener, app: Router, patience: Duration) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = Arc::new(GracefulShutdown::new());
    let (open, room) = (Arc::clone(&graceful), Arc::new(Semaphore::new(CONNECTIONS)));
    let accepting = tokio::spawn(async move {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => answer(stream, permit, app.clone(), &open, patience),
                // the machine is out of files or the like: better later than never
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    tokio::signal::ctrl_c().await?;
    accepting.abort();
    let _ = accepting.await; // gives its part of `graceful` back
    if let Some(graceful) = Arc::into_inner(graceful) {
        let _ = timeout(FAREWELL, graceful.shutdown()).await; // whoever still reads is cut off
    }
    Ok(())
}

/// Answers one connection beside the others; `patience` is for the head of a request, the pause
/// before it included.
fn answer(
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    app: Router,
    open: &GracefulShutdown,
    patience: Duration,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    http.max_buf_size(HEAD).max_headers(LINES);
    let service = TowerToHyperService::new(app);
    let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::spawn(async move {
        let _ = connection.await; // a client that hangs up has its reasons
        drop(permit);
    });
}
