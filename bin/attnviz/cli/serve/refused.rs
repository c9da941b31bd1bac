//! What is answered in place of a run: JSON with one line.

use attnviz::Error;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::cli::console::one_line;

/// A request that gets no page.
#[derive(Debug)]
pub struct Refused {
    status: StatusCode,
    why: String,
}

impl Refused {
    pub fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    pub fn host(found: &str) -> Self {
        let why =
            format!("Host: expected this server's own name, found `{found}` (see --allow-host)");
        Self::new(StatusCode::MISDIRECTED_REQUEST, why)
    }

    pub fn origin() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Origin: runs are for this server's own page")
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error.exit_code() {
            1 => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": one_line(&self.why) }).to_string();
        (self.status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
