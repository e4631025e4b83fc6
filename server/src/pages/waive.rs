//! The forms of a person who signed in: a waiver is made, a waiver is ended. What a waiver may say
//! is checked where the API checks it.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use protocol::Outcome;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::session::private;
use super::view::{self, Choice, Section, Shell};
use crate::app::AppState;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::filters;
use crate::ingest::{self, NewWaiver};
use crate::session::{Fields, MaybeSession, Session, SignedForm};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/waivers/new", get(show).post(create))
        .route("/waivers/{waiver}/end", post(end))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/new_waiver.html")]
struct NewWaiverPage {
    shell: Shell,
    session: Session,
    fields: Fields,
    outcomes: Vec<Choice>,
    problem: String,
    hint: String,
}

impl NewWaiverPage {
    fn new(session: Session, fields: Fields) -> Self {
        let forgivable = Outcome::ALL.iter().filter(|o| o.is_conclusive() && **o != Outcome::Pass);
        let outcomes = forgivable.map(|outcome| Choice {
            value: outcome.as_str().to_owned(),
            label: outcome.as_str().to_owned(),
            chosen: fields.all("outcome").any(|word| word == outcome.as_str()),
        });
        Self {
            shell: Shell::new(Section::Waivers),
            outcomes: outcomes.collect(),
            session,
            fields,
            problem: String::new(),
            hint: String::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Case key to begin with.
    case: Option<String>,
    /// Outcome to begin with.
    outcome: Option<Outcome>,
}

async fn show(MaybeSession(session): MaybeSession, Query(asked): Query<Parameters>) -> Response {
    let case = asked.case.unwrap_or_default();
    let outcome = asked.outcome.map_or("", Outcome::as_str);
    let Some(session) = session else {
        let here = view::link("/waivers/new", &[("case", case.as_str()), ("outcome", outcome)]);
        let sign_in = view::link("/session", &[("next", here.as_str())]);
        return private(Redirect::to(&sign_in).into_response());
    };
    let fields = Fields::default().with("case_pattern", &case).with("outcome", outcome);
    private(NewWaiverPage::new(session, fields).into_response())
}

async fn create(State(state): State<AppState>, form: SignedForm) -> Result<Response> {
    let SignedForm { session, fields } = form;
    let made = match read(&fields) {
        Ok(new) => ingest::create_waiver(&state, &session.caller, new).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(_) => Ok(Redirect::to("/waivers").into_response()),
        // What was written must not be lost over a mistake in one field.
        Err(error @ Error::BadRequest { .. }) => {
            let (problem, hint) = (error.to_string(), error.hint());
            let page = NewWaiverPage { problem, hint, ..NewWaiverPage::new(session, fields) };
            Ok(private((StatusCode::OK, page).into_response()))
        }
        Err(error) => Err(error),
    }
}

async fn end(
    State(state): State<AppState>,
    Path(waiver): Path<i64>,
    form: SignedForm,
) -> Result<Redirect> {
    ingest::revoke_waiver(&state, &form.session.caller, waiver).await?;
    Ok(Redirect::to("/waivers"))
}

/// The form as the API would have been sent it, so that both are read and refused alike.
fn read(fields: &Fields) -> Result<NewWaiver> {
    let mut body = Map::new();
    for name in [
        "case_pattern",
        "suite",
        "model",
        "operator",
        "reason",
        "owner",
        "issue",
        "author",
        "expires_on",
    ] {
        if !fields.first(name).is_empty() {
            body.insert(name.to_owned(), json!(fields.first(name)));
        }
    }
    body.insert("outcomes".to_owned(), fields.all("outcome").filter(|o| !o.is_empty()).collect());
    let mut when = Map::new();
    for name in ["device", "device_kind", "dtype", "mode"] {
        let words = list(fields.first(name), ',');
        if !words.is_empty() {
            when.insert(name.to_owned(), json!(words));
        }
    }
    let mut versions = Map::new();
    for part in list(fields.first("versions"), ';') {
        let (name, range) = part.split_once(char::is_whitespace).ok_or_else(|| {
            Error::bad_request(
                format!("`versions` has `{part}`, which is no range of anything"),
                "write it as `torch >=2.14,<2.16; torch_tpu <0.3`",
            )
        })?;
        versions.insert(name.to_owned(), json!(range.trim()));
    }
    when.insert("versions".to_owned(), Value::Object(versions));
    body.insert("when".to_owned(), Value::Object(when));
    serde_path_to_error::deserialize(Value::Object(body)).map_err(|error| {
        Error::bad_request(
            format!("`{}` is not as agreed: {}", error.path(), error.inner()),
            "docs/waivers.md describes every field",
        )
    })
}

fn list(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect()
}
