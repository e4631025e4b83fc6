//! The page of an error; which error it is, is decided in [`crate::error`].

use askama::Template;
use axum::response::{Html, IntoResponse, Response};

use crate::error::Shown;

#[derive(Template)]
#[template(path = "pages/error.html")]
struct ErrorPage {
    title: String,
    hint: String,
    request_id: String,
}

/// Renders it.
pub(crate) fn render(shown: Shown) -> Response {
    let status = shown.status;
    let page = ErrorPage { title: shown.title, hint: shown.hint, request_id: shown.request_id };
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the error page cannot be rendered");
            status.into_response()
        }
    }
}
