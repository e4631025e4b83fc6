//! The style sheet, the script and the icon, embedded. Their addresses change with their contents,
//! so that a browser may keep them for ever.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use crate::app::AppState;

const STYLE: &str = include_str!("../../static/style.css");
const SCRIPT: &str = include_str!("../../static/app.js");
const ICON: &str = include_str!("../../static/icon.svg");

static STYLE_HREF: LazyLock<String> = LazyLock::new(|| versioned("/static/style.css", STYLE));
static SCRIPT_HREF: LazyLock<String> = LazyLock::new(|| versioned("/static/app.js", SCRIPT));

fn versioned(path: &str, contents: &str) -> String {
    format!("{path}?v={}", hex::encode(&Sha256::digest(contents)[..6]))
}

/// Address of the style sheet.
pub(crate) fn style_href() -> &'static str {
    &STYLE_HREF
}

/// Address of the script.
pub(crate) fn script_href() -> &'static str {
    &SCRIPT_HREF
}

/// The files.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/static/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/static/app.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/static/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
        .route("/favicon.ico", get(|| async { file("image/svg+xml", ICON) }))
}

fn file(content_type: &'static str, contents: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, contents).into_response()
}
