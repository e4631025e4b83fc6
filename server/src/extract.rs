//! What a handler may take from a request. The extractors of axum itself are banned in
//! `server/clippy.toml`, because their refusals do not name the field or have the two faces.
//!
//! Who calls is a parameter too: a handler without an `Auth…` parameter is public by
//! construction, and that is visible in its signature.

use axum::body::Body;
use axum::extract::{FromRef as _, FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use futures_util::StreamExt as _;
use protocol::ingest_api::MAX_BODY_BYTES;
use serde::de::DeserializeOwned;

use crate::app::AppState;
use crate::db::Db;
use crate::db::tokens::{Caller, Scope};
use crate::error::Error;

/// Parts of the path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    #[expect(clippy::disallowed_types, reason = "this is the one that wraps it")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Error::bad_request(
                format!("the address cannot be read: {}", rejection.body_text()),
                "case keys and other names in an address are percent-encoded",
            )),
        }
    }
}

/// The query string. Unknown parameters are refused where `T` denies them.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    #[expect(clippy::disallowed_types, reason = "this is the one that wraps it")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Error::bad_request(
                format!("the query string cannot be read: {}", rejection.body_text()),
                "docs/api.md lists the parameters of every endpoint",
            )),
        }
    }
}

/// A JSON body of at most [`MAX_BODY_BYTES`] after decompression.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &AppState) -> Result<Self, Error> {
        read_json(request).await.map(Self)
    }
}

/// The same as a function, for handlers that do something before they read the body.
pub(crate) async fn read_json<T: DeserializeOwned>(request: Request) -> Result<T, Error> {
    let bytes = read_body(request.into_body()).await?;
    parse_json(&bytes)
}

/// The bytes of a body, at most [`MAX_BODY_BYTES`] after decompression.
pub(crate) async fn read_body(body: Body) -> Result<Vec<u8>, Error> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            Error::bad_request(
                format!("the request body cannot be read: {error}"),
                "it ended early, or it is not what its `Content-Encoding` says; send it again",
            )
        })?;
        // Counted here and not by a layer, because what matters is the size after decompression.
        if bytes.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(Error::TooLarge { limit_bytes: MAX_BODY_BYTES });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads JSON; the error names the field.
fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    // Remembering the way to every field takes longer than reading it.
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "the request body".to_owned() } else { format!("`{path}`") };
        Error::bad_request(
            format!("{field} is not as agreed: {}", error.inner()),
            "numbers that are not finite are written \"nan\", \"inf\" and \"-inf\"; docs/api.md \
             describes every field",
        )
    })?;
    reader.end().map_err(|error| {
        Error::bad_request(
            format!("the request body goes on after its end: {error}"),
            "send one JSON value",
        )
    })?;
    Ok(value)
}

/// A runner: a token with the scope `ingest`.
#[derive(Debug)]
pub struct AuthRunner(pub Caller);

/// A person or job that triages: a token with the scope `triage`.
#[derive(Debug)]
pub struct AuthTriage(pub Caller);

/// A token with the scope `admin`.
#[derive(Debug)]
pub struct AuthAdmin(pub Caller);

impl FromRequestParts<AppState> for AuthRunner {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Error> {
        require(parts, state, Scope::Ingest).await.map(Self)
    }
}

impl FromRequestParts<AppState> for AuthTriage {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Error> {
        require(parts, state, Scope::Triage).await.map(Self)
    }
}

impl FromRequestParts<AppState> for AuthAdmin {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Error> {
        require(parts, state, Scope::Admin).await.map(Self)
    }
}

async fn require(parts: &Parts, state: &AppState, scope: Scope) -> Result<Caller, Error> {
    let caller = find_caller(parts, state).await?;
    if caller.may(scope) {
        Ok(caller)
    } else {
        Err(Error::Forbidden { token: caller.name, scope: scope.as_str() })
    }
}

/// Who sends this, by the token; 401 when nobody we know.
pub(crate) async fn find_caller(parts: &Parts, state: &AppState) -> Result<Caller, Error> {
    let value = parts
        .headers
        .get(header::AUTHORIZATION)
        .ok_or(Error::Unauthorized("this needs a token"))?;
    let secret = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, secret)| secret.trim())
        .ok_or(Error::Unauthorized("the header `Authorization` is not a bearer token"))?;
    let db = Db::from_ref(state);
    let caller = crate::db::tokens::find_by_secret(db.pool(), secret)
        .await?
        .ok_or_else(|| state.unknown_rate.refuse(parts))?;
    state.rate.take(caller.token_id, &caller.name)?;
    Ok(caller)
}
