//! `ETag` and `If-None-Match`: who asks again for what has not changed gets 304 and no body.

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Names the body of every successful answer to a GET by its hash.
pub async fn tag(request: Request, next: Next) -> Result<Response, Error> {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let is_get = request.method() == Method::GET;
    let response = next.run(request).await;
    // A body whose length is not known is a stream, which is not held back to be hashed.
    let length = response.body().size_hint().exact();
    let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
        return Ok(response);
    };
    if !is_get || response.status() != StatusCode::OK {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, length).await.map_err(anyhow::Error::from)?;
    let mut digest = hex::encode(Sha256::digest(&bytes));
    digest.truncate(32);
    // Weak, because compression on the way may change the bytes.
    let tag = format!("W/\"{digest}\"");
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(header::ETAG, value);
    }
    parts.headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if known.is_some_and(|known| is_among(&tag, &known)) {
        let kept = [header::ETAG, header::CACHE_CONTROL];
        let headers: HeaderMap = kept
            .into_iter()
            .filter_map(|name| parts.headers.get(&name).cloned().map(|value| (name, value)))
            .collect();
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn is_among(tag: &str, known: &HeaderValue) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(known) = known.to_str() else { return false };
    known.split(',').any(|other| other.trim() == "*" || opaque(other) == opaque(tag))
}
