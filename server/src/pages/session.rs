//! Where a person signs in with a token, sees until when that holds, and signs out.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::view::{Section, Shell};
use crate::app::AppState;
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;
use crate::session::{Form, MaybeSession, Session, SignedForm};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/session", get(show).post(sign_in)).route("/session/end", post(sign_out))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/session.html")]
struct SessionPage {
    shell: Shell,
    session: Option<Session>,
    expires_at: Option<DateTime<Utc>>,
    next: String,
    problem: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    next: Option<String>,
}

async fn show(MaybeSession(session): MaybeSession, Query(asked): Query<Parameters>) -> Response {
    let next = own_path(asked.next.as_deref().unwrap_or_default()).to_owned();
    private(
        SessionPage {
            shell: Shell::new(Section::Nowhere),
            expires_at: session.as_ref().map(|session| session.expires_at),
            session,
            next,
            problem: String::new(),
        }
        .into_response(),
    )
}

async fn sign_in(State(state): State<AppState>, Form(fields, parts): Form) -> Result<Response> {
    let next = own_path(fields.first("next"));
    match Session::begin(&state, fields.first("token"), &parts).await {
        Ok(cookie) => Ok(with_cookie(cookie, next)),
        Err(error @ (Error::Unauthorized(_) | Error::Forbidden { .. })) => {
            let page = SessionPage {
                shell: Shell::new(Section::Nowhere),
                session: None,
                expires_at: None,
                next: next.to_owned(),
                problem: error.to_string(),
            };
            // Not a 401, which would be answered by the page of an error instead of this form.
            Ok(private((StatusCode::OK, page).into_response()))
        }
        Err(error) => Err(error),
    }
}

async fn sign_out(State(state): State<AppState>, form: SignedForm) -> Result<Response> {
    Ok(with_cookie(form.session.end(&state).await?, "/session"))
}

fn with_cookie(cookie: HeaderValue, next: &str) -> Response {
    let mut response = private(Redirect::to(next).into_response());
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}

/// What depends on who asks is kept by nobody.
pub(super) fn private(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A path of this server; anything else is its beginning, so that nobody is sent elsewhere.
pub(super) fn own_path(text: &str) -> &str {
    let is_own = text.starts_with('/')
        && !text.starts_with("//")
        && !text.contains(|c: char| c == '\\' || c.is_control());
    if is_own { text } else { "/waivers" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for foreign in ["", "https://x.example", "//x.example", "/\\x.example", "x", "/a\n"] {
            assert_eq!(own_path(foreign), "/waivers", "{foreign:?}");
        }
        assert_eq!(own_path("/runs/r1?suite=tier1"), "/runs/r1?suite=tier1");
    }
}
