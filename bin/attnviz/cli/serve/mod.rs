//! `attnviz serve`: the page with a box to type into, for this machine's browser.

mod answers;
mod change;
mod guard;
mod listen;
mod refused;
mod routes;
mod run;

use std::net::{SocketAddr, TcpListener};

use attnviz::{Error, Result};
use serde_json::json;

use super::args::ServeArgs;
use super::console::Console;
use super::session;
use super::threads;
use guard::Guard;
use routes::{Limits, Site};
use run::{Ask, Server};

pub fn run(args: &ServeArgs, console: &Console) -> Result<u8> {
    let asked = SocketAddr::new(args.host, args.port);
    let (listener, address) = bind(asked)?;
    threads::set(args.run.threads)?;
    let mut models = Vec::new();
    for model in args.models()? {
        models.push(session::open_model(&model, &args.run, console)?);
    }
    let server = Server::new(models, args.run.clone())?;
    let first = Ask { text: args.text.clone(), ..Ask::default() };
    let page = server.page(&first)?;
    if !address.ip().is_loopback() {
        console.note(&format!("{address}: anyone who reaches it can run the models, unencrypted"));
    }
    let url = format!("http://{address}/");
    console.result(&match console.talk.json {
        true => format!("{}\n", json!({ "url": url, "models": server.names() })),
        false => format!("{url}\n"),
    });
    if !console.talk.quiet && !console.talk.json {
        console.note("stop with Ctrl-C");
    }
    let guard = Guard::new(address, &args.allow_host);
    let limits = Limits { run: args.timeout, read: args.read_timeout };
    listen::serve(listener, Site::new(server, page, guard, limits)).map_err(failed(asked))?;
    Ok(0)
}

fn bind(asked: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(asked).map_err(failed(asked))?;
    listener.set_nonblocking(true).map_err(failed(asked))?;
    let address = listener.local_addr().map_err(failed(asked))?;
    Ok((listener, address))
}

fn failed(address: SocketAddr) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { path: address.to_string().into(), action: "listen", source }
}
