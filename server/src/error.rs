//! One error, two faces: JSON below `/api/`, a page elsewhere. The cause of a 5xx goes to the log
//! and never to the caller, who gets the request id to ask with.
//!
//! A handler returns [`Error`]; [`show`] gives it its face, and does the same for refusals made by
//! layers (wrong method, too large, a panic), so that every answer that is not a success has the
//! three fields `title`, `hint` and `request_id`.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::ingest_api::ErrorBody;

/// What handlers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that keeps a request from being answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named thing does not exist.
    #[error("there is no {noun} `{name}`")]
    NoSuch {
        /// What kind of thing.
        noun: &'static str,
        /// As asked for.
        name: String,
    },
    /// The request is wrong and will be wrong again.
    #[error("{title}")]
    BadRequest {
        /// What is wrong, naming the field.
        title: String,
        /// What to do.
        hint: String,
    },
    /// The request contradicts what is stored.
    #[error("{title}")]
    Conflict {
        /// What contradicts what.
        title: String,
        /// What to do.
        hint: String,
    },
    /// No token, or one that is not known.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// A token without the scope.
    #[error("token `{token}` lacks the scope `{scope}`")]
    Forbidden {
        /// Its name.
        token: String,
        /// What would be needed.
        scope: &'static str,
    },
    /// A form that no page of the sender's session had in it.
    #[error("this form did not come from a page of your session")]
    ForeignForm,
    /// The body is over a limit.
    #[error("the request body is larger than {limit_bytes} bytes")]
    TooLarge {
        /// Limit after decompression.
        limit_bytes: usize,
    },
    /// Too much at once; the same request will do later.
    #[error("the server is busy {doing}")]
    Busy {
        /// With what.
        doing: &'static str,
        /// When to come back.
        retry_after_secs: u64,
    },
    /// One token asks too often; the same request will do later.
    #[error("token `{token}` makes too many requests")]
    TooMany {
        /// Its name.
        token: String,
        /// When to come back.
        retry_after_secs: u64,
    },
    /// One address tries too many tokens that nobody has; a known token is not held up.
    #[error("too many unknown tokens come from this address")]
    TooManyUnknown {
        /// When to come back.
        retry_after_secs: u64,
    },
    /// The database cannot be reached.
    #[error("the database cannot be reached")]
    Unavailable(#[source] sqlx::Error),
    /// Another request changed the same at the same time, and nothing of this one was stored.
    #[error("another request changes the same at the same time")]
    Overtaken(#[source] Option<sqlx::Error>),
    /// A mistake of ours.
    #[error("something went wrong on our side")]
    Internal(#[source] anyhow::Error),
}

impl Error {
    /// Whether another request was faster, so that this one may do a moment later.
    #[must_use]
    pub const fn is_overtaken(&self) -> bool {
        matches!(self, Self::Overtaken(_))
    }

    /// A 404 for a thing asked for by name.
    pub fn no_such(noun: &'static str, name: impl std::fmt::Display) -> Self {
        Self::NoSuch { noun, name: shorten(&name.to_string()) }
    }

    /// A 400.
    pub fn bad_request(title: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::BadRequest { title: title.into(), hint: hint.into() }
    }

    /// A 409.
    pub fn conflict(title: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Conflict { title: title.into(), hint: hint.into() }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::NoSuch { .. } => StatusCode::NOT_FOUND,
            Self::BadRequest { .. } => StatusCode::BAD_REQUEST,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } | Self::ForeignForm => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy { .. } | Self::TooMany { .. } | Self::TooManyUnknown { .. } => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Unavailable(_) | Self::Overtaken(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What to do next; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuch { noun, .. } => {
                format!("look at the list of {noun}s; names are case-sensitive")
            }
            Self::BadRequest { hint, .. } | Self::Conflict { hint, .. } => hint.clone(),
            Self::Unauthorized(_) => "send `Authorization: Bearer TOKEN`; a token is made by \
                                      `server token create --name NAME --scope ingest`. People \
                                      sign in at /session"
                .to_owned(),
            Self::ForeignForm => {
                "nothing was done; open the page again, and send the form from there".to_owned()
            }
            Self::Forbidden { scope, .. } => {
                format!("make one with `server token create --name NAME --scope {scope}`")
            }
            Self::TooLarge { .. } => "send fewer results per request".to_owned(),
            Self::Busy { .. } | Self::TooMany { .. } => {
                "send it again after the time in `Retry-After`".to_owned()
            }
            Self::TooManyUnknown { .. } => "this token is unknown or revoked too; look it up, and \
                                            come back after the time in `Retry-After`"
                .to_owned(),
            Self::Unavailable(_) | Self::Overtaken(_) => {
                "send it again; nothing of it was stored".to_owned()
            }
            Self::Internal(_) => {
                "tell the operator of this server the request id; the log has the cause".to_owned()
            }
        }
    }

    const fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after_secs, .. }
            | Self::TooMany { retry_after_secs, .. }
            | Self::TooManyUnknown { retry_after_secs } => Some(*retry_after_secs),
            Self::Unavailable(_) | Self::Overtaken(_) => Some(5),
            Self::NoSuch { .. }
            | Self::BadRequest { .. }
            | Self::Conflict { .. }
            | Self::Unauthorized(_)
            | Self::Forbidden { .. }
            | Self::ForeignForm
            | Self::TooLarge { .. }
            | Self::Internal(_) => None,
        }
    }
}

/// Enough of a caller's text to recognise it by.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // A row that was not there a moment ago, or each waits for the other.
        if code.is_some_and(|code| ["23505", "40P01"].contains(&code.as_ref())) {
            Self::Overtaken(Some(error))
        } else if is_transient(&error) {
            Self::Unavailable(error)
        } else if is_unstorable(&error) {
            Self::bad_request(
                "the request holds a character or a time that cannot be stored",
                "look for NUL characters and for times outside the years 2000 to 2200",
            )
        } else {
            Self::Internal(error.into())
        }
    }
}

/// Whether a value of the caller's is outside what PostgreSQL has: NUL in a text, a time that is
/// too far away. Bodies are checked before; this is for names in addresses and queries.
fn is_unstorable(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["22021", "22P05", "22008"].contains(&code.as_ref()))
}

/// Whether the same statement may succeed later: the connection, not the statement, is at fault.
fn is_transient(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Database(database) = error {
        // 08 connection, 53 resources, 57P shutting down, 40001 lost a race.
        return database.code().is_some_and(|code| {
            code.starts_with("08")
                || code.starts_with("53")
                || code.starts_with("57P")
                || code == "40001"
        });
    }
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(error)
    }
}

/// Carried in the extensions of a response until [`show`] gives it a face.
#[derive(Debug, Clone)]
struct Problem(Arc<Error>);

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Problem(Arc::new(self)));
        response
    }
}

/// What a page needs to show an error.
#[derive(Debug)]
pub struct Shown {
    /// HTTP status.
    pub status: StatusCode,
    /// What is wrong.
    pub title: String,
    /// What to do; may be empty.
    pub hint: String,
    /// To find it in the log.
    pub request_id: String,
}

/// Gives an unsuccessful response its face; called by the outermost layer.
pub(crate) fn show(path: &str, request_id: &str, response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || path == "/readyz" {
        return response;
    }
    let problem = response.extensions().get::<Problem>().cloned();
    let shown = match &problem {
        Some(Problem(error)) => {
            if status.is_server_error() {
                tracing::error!(error = ?error, "request failed");
            }
            Shown {
                status,
                title: error.to_string(),
                hint: error.hint(),
                request_id: request_id.to_owned(),
            }
        }
        None => unnamed(status, path, request_id),
    };
    let retry_after = problem.as_ref().and_then(|Problem(error)| error.retry_after_secs());
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut answer = if path.starts_with("/api/") {
        let body = ErrorBody {
            status: status.as_u16(),
            title: shown.title,
            hint: shown.hint,
            request_id: shown.request_id,
        };
        (status, Json(body)).into_response()
    } else {
        crate::pages::error::render(shown)
    };
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = allow {
        answer.headers_mut().insert(header::ALLOW, allow);
    }
    answer
}

/// Refusals that no handler made.
fn unnamed(status: StatusCode, path: &str, request_id: &str) -> Shown {
    let (title, hint) = match status.as_u16() {
        404 => (
            format!("there is nothing at `{}`", shorten(path)),
            "see docs/api.md for what there is",
        ),
        405 => (format!("`{}` does not take this method", shorten(path)), "see the header `Allow`"),
        408 => ("the request took too long".to_owned(), "send it again, or less of it"),
        413 => ("the request body is too large".to_owned(), "send fewer results per request"),
        415 => (
            "the content encoding is not one that is understood".to_owned(),
            "send it as `gzip`, as `zstd`, or as it is",
        ),
        503 => ("the server took too long".to_owned(), "send it again"),
        code if code >= 500 => (
            "something went wrong on our side".to_owned(),
            "tell the operator of this server the request id; the log has the cause",
        ),
        _ => ("the request was refused".to_owned(), ""),
    };
    Shown { status, title, hint: hint.to_owned(), request_id: request_id.to_owned() }
}

/// The answer to a path that is not routed.
pub(crate) async fn not_found(request: Request) -> Response {
    let _ = request;
    StatusCode::NOT_FOUND.into_response()
}
