//! The page of an error; which error it is, is decided in [`crate::error`].

use askama::Template;
use axum::response::{Html, IntoResponse, Response};

use super::view::{Section, Shell};
use crate::error::Shown;
use crate::filters;

#[derive(Debug, Template)]
#[template(path = "pages/error.html")]
struct ErrorPage {
    shell: Shell,
    status: u16,
    reason: &'static str,
    title: String,
    hint: String,
    request_id: String,
}

/// Renders it.
pub(crate) fn render(shown: Shown) -> Response {
    let status = shown.status;
    let page = ErrorPage {
        shell: Shell::new(Section::Nowhere),
        status: status.as_u16(),
        reason: status.canonical_reason().unwrap_or("Error"),
        title: shown.title,
        hint: shown.hint,
        request_id: shown.request_id,
    };
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the error page cannot be rendered");
            status.into_response()
        }
    }
}
