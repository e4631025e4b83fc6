//! A person in a browser: signed in with a token of the scope `triage`, known by a cookie that
//! scripts cannot read and other sites do not send with a form. A form that changes something is a
//! [`SignedForm`], which exists only when it carries the token that its session's pages have in
//! them, so that a handler cannot forget to ask for it.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use chrono::{DateTime, Duration, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::app::AppState;
use crate::db::tokens::{Caller, Scope};
use crate::db::{audit, sessions, tokens};
use crate::error::{Error, Result};
use crate::extract::read_body;

/// How long a person stays signed in.
const LIFETIME: Duration = Duration::hours(12);
/// Name of the field that every form of a session has.
pub const CSRF_FIELD: &str = "csrf";
/// Most bytes of a form.
const MAX_FORM_BYTES: usize = 64 * 1024;

/// Somebody who signed in.
#[derive(Debug, Clone)]
pub struct Session {
    /// The token that they signed in with.
    pub caller: Caller,
    /// What the forms of this session carry.
    pub csrf: String,
    /// When they have to sign in again.
    pub expires_at: DateTime<Utc>,
    secret: String,
}

impl Session {
    /// Whose session the request belongs to, when it belongs to one.
    pub async fn find(headers: &HeaderMap, state: &AppState) -> Result<Option<Self>> {
        let Some(secret) = cookie(headers, cookie_name(state)) else { return Ok(None) };
        let found = sessions::find(state.db.pool(), secret, state.clock.now()).await?;
        let Some((caller, expires_at)) = found else { return Ok(None) };
        state.rate.take(caller.token_id, &caller.name)?;
        let csrf = hex::encode(form_mac(secret).finalize().into_bytes());
        Ok(Some(Self { caller, csrf, expires_at, secret: secret.to_owned() }))
    }

    /// Signs somebody in who sent this token with that request; answers the cookie to set.
    pub async fn begin(state: &AppState, token: &str, from: &Parts) -> Result<HeaderValue> {
        let caller = tokens::find_by_secret(state.db.pool(), token.trim())
            .await?
            .ok_or_else(|| state.unknown_rate.refuse(from))?;
        state.rate.take(caller.token_id, &caller.name)?;
        if !caller.may(Scope::Triage) {
            return Err(Error::Forbidden { token: caller.name, scope: Scope::Triage.as_str() });
        }
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let now = state.clock.now();
        let mut transaction = state.db.pool().begin().await?;
        sessions::create(&mut transaction, &secret, &caller, now, now + LIFETIME).await?;
        let subject = format!("token {}", caller.name);
        let detail = serde_json::json!({});
        audit::record(&mut *transaction, Some(&caller), "session.begin", &subject, detail).await?;
        transaction.commit().await?;
        Ok(set_cookie(state, &secret, LIFETIME.num_seconds()))
    }

    /// Signs out; answers the cookie that takes the old one away.
    pub async fn end(self, state: &AppState) -> Result<HeaderValue> {
        sessions::delete(state.db.pool(), &self.secret).await?;
        let subject = format!("token {}", self.caller.name);
        let detail = serde_json::json!({});
        audit::record(state.db.pool(), Some(&self.caller), "session.end", &subject, detail).await?;
        Ok(set_cookie(state, "", 0))
    }
}

/// What the forms of a session carry can be computed from the secret in its cookie and from
/// nothing else, so that it needs no place of its own.
fn form_mac(secret: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(secret.as_bytes()).expect("any length will do");
    mac.update(b"form");
    mac
}

/// With the prefix, a browser takes the cookie from this host over TLS only.
fn cookie_name(state: &AppState) -> &'static str {
    if is_secure(state) { "__Host-conformance" } else { "conformance" }
}

fn is_secure(state: &AppState) -> bool {
    state.settings.public_url.starts_with("https://")
}

fn set_cookie(state: &AppState, secret: &str, seconds: i64) -> HeaderValue {
    let secure = if is_secure(state) { "; Secure" } else { "" };
    let text = format!(
        "{}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}",
        cookie_name(state)
    );
    HeaderValue::from_str(&text).expect("hex digits and fixed text")
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(known, _)| known.trim() == name)?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

impl FromRequestParts<AppState> for Session {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        let session = Self::find(&parts.headers, state).await?;
        session.ok_or(Error::Unauthorized("you are not signed in, or no longer"))
    }
}

/// Whoever it is; a page that shows more to those who signed in.
#[derive(Debug)]
pub struct MaybeSession(pub Option<Session>);

impl FromRequestParts<AppState> for MaybeSession {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        Session::find(&parts.headers, state).await.map(Self)
    }
}

/// The fields of a form, in its order; a name may stand there several times.
#[derive(Debug, Default, Clone)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// The first value of that name without the blanks around it; empty where there is none.
    #[must_use]
    pub fn first(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.trim())
    }

    /// Every value of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.trim())
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A form of nobody in particular: only the one that signs in. With the rest of the request, which
/// says where it comes from.
#[derive(Debug)]
pub struct Form(pub Fields, pub Parts);

impl FromRequest<AppState> for Form {
    type Rejection = Error;

    async fn from_request(request: Request, state: &AppState) -> Result<Self> {
        refuse_foreign(request.headers(), state)?;
        let (parts, body) = request.into_parts();
        let copy = Request::from_parts(parts.clone(), body);
        Ok(Self(read_fields(copy).await?, parts))
    }
}

/// A form of somebody who signed in, which came from a page of that session.
#[derive(Debug)]
pub struct SignedForm {
    /// Whose.
    pub session: Session,
    /// What it says.
    pub fields: Fields,
}

impl FromRequest<AppState> for SignedForm {
    type Rejection = Error;

    async fn from_request(request: Request, state: &AppState) -> Result<Self> {
        refuse_foreign(request.headers(), state)?;
        let session = Session::find(request.headers(), state)
            .await?
            .ok_or(Error::Unauthorized("you are not signed in, or no longer"))?;
        let fields = read_fields(request).await?;
        let given = hex::decode(fields.first(CSRF_FIELD)).unwrap_or_default();
        // Compared in a time that does not tell how much of it is right.
        if form_mac(&session.secret).verify_slice(&given).is_err() {
            return Err(foreign());
        }
        Ok(Self { session, fields })
    }
}

fn foreign() -> Error {
    Error::ForeignForm
}

/// What browsers say of where a form comes from. Those that say nothing are not believed either:
/// the token in the form decides.
fn refuse_foreign(headers: &HeaderMap, state: &AppState) -> Result<()> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(foreign());
    }
    let Some(origin) = text("origin") else { return Ok(()) };
    let here = text("host").unwrap_or_default();
    let is_ours = origin == state.settings.public_url
        || ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(here));
    if is_ours { Ok(()) } else { Err(foreign()) }
}

async fn read_fields(request: Request) -> Result<Fields> {
    let (parts, body) = request.into_parts();
    let bytes = read_body(body).await?;
    if bytes.len() > MAX_FORM_BYTES {
        return Err(Error::TooLarge { limit_bytes: MAX_FORM_BYTES });
    }
    let request = Request::from_parts(parts, Body::from(bytes));
    match axum::Form::<Vec<(String, String)>>::from_request(request, &()).await {
        Ok(axum::Form(fields)) => Ok(Fields(fields)),
        Err(rejection) => Err(Error::bad_request(
            format!("the form cannot be read: {}", rejection.body_text()),
            "send it from the page that it stands on",
        )),
    }
}
