//! The two addresses: the page, and a run. There is no route to any file.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::guard::{Guard, HEADERS};
use super::refused::Refused;
use super::run::{Ask, Server};

/// Bytes of a request's body.
const BODY: usize = 64 * 1024;

/// How long a run may wait for those before it.
const TURN: Duration = Duration::from_secs(30);

/// Runs that wait for their turn, and the one that has it.
const QUEUE: usize = 9;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub run: Duration,
    /// The head of a request, and its body.
    pub read: Duration,
}

/// What the routes share.
pub struct Site {
    server: Arc<Server>,
    page: Bytes,
    guard: Guard,
    pub limits: Limits,
    queue: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

impl Site {
    pub fn new(server: Server, page: Vec<u8>, guard: Guard, limits: Limits) -> Self {
        let (queue, turn) = (Arc::new(Semaphore::new(QUEUE)), Arc::new(Semaphore::new(1)));
        Self { server: Arc::new(server), page: page.into(), guard, limits, queue, turn }
    }
}

type Shared = State<Arc<Site>>;

pub fn router(site: Site) -> Router {
    let site = Arc::new(site);
    let wrong_method = || async {
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, "expected GET of / or POST to /run")
    };
    let nowhere =
        || async { Refused::new(StatusCode::NOT_FOUND, "expected GET of / or POST to /run") };
    Router::new()
        .route("/", get(page))
        .route("/run", post(run))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
        .layer(from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

async fn guarded(State(site): Shared, request: Request, next: Next) -> Response {
    let mut response = match site.guard.check(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    response.headers_mut().extend(HEADERS);
    response
}

async fn page(State(site): Shared) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], site.page.clone()).into_response()
}

async fn run(State(site): Shared, headers: HeaderMap, body: Body) -> Result<Response, Refused> {
    let ask = read(&headers, body, site.limits.read).await?;
    let busy = |why| Refused::new(StatusCode::SERVICE_UNAVAILABLE, why);
    let _place =
        site.queue.try_acquire().map_err(|_| busy("too many runs are waiting; try again"))?;
    let turn = timeout(TURN, Arc::clone(&site.turn).acquire_owned());
    let turn = turn.await.map_err(|_| busy("another run takes long; try again"))?;
    let server = Arc::clone(&site.server);
    let work = spawn_blocking(move || {
        let done = server.data(&ask);
        drop(turn); // not before, even where nobody waits any more
        done
    });
    let late = |_| Refused::new(StatusCode::GATEWAY_TIMEOUT, "the run takes too long");
    let failed = |_| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the run broke off");
    let data = timeout(site.limits.run, work).await.map_err(late)?.map_err(failed)??;
    Ok(([(CONTENT_TYPE, "application/json")], data).into_response())
}

async fn read(headers: &HeaderMap, body: Body, patience: Duration) -> Result<Ask, Refused> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let why = format!("Content-Type: expected application/json, found `{kind}`");
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let slow = |_| Refused::new(StatusCode::REQUEST_TIMEOUT, "the request takes too long to come");
    let large = |_| {
        let why = format!("the request: expected at most {BODY} bytes, found more");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let body = timeout(patience, to_bytes(body, BODY)).await.map_err(slow)?.map_err(large)?;
    serde_json::from_slice(&body).map_err(|error| {
        Refused::new(StatusCode::BAD_REQUEST, format!("the request is not as expected: {error}"))
    })
}
