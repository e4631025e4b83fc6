//! HTTP to the server: the ingest endpoints of `protocol::ingest_api`, the gate, and the cases of a
//! run.
//!
//! One place decides what may be tried again: no connection, 429 and 5xx may pass; any other
//! refusal will be the same the next time.

use std::time::Duration;

use protocol::ingest_api::{
    ErrorBody, create_run, post_results, put_inventory, put_manifest, seal_run,
};
use protocol::inventory::Inventory;
use protocol::{CaseKey, Outcome, RunKey, Verdict};
use reqwest::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use crate::Error;

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Lines asked for at once of what a server lists; the most that it gives.
const PAGE_LINES: &str = "1000";

/// A planned case, as far as a runner reads what a server says of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ServedCase {
    /// Its key.
    pub case: CaseKey,
    /// What the server judged.
    pub verdict: Verdict,
    /// The outcome that stands for its attempts; absent without any.
    pub outcome: Option<Outcome>,
    /// Wall seconds over its attempts.
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// Why a request did not succeed.
#[derive(Debug, Clone)]
pub enum SendError {
    /// Trying again later can help.
    Transient {
        /// What happened.
        message: String,
        /// What the server asked for.
        retry_after: Option<Duration>,
    },
    /// It cannot.
    Refused {
        /// HTTP status.
        status: u16,
        /// What is wrong, in the server's words.
        message: String,
        /// What to do next, may be empty.
        hint: String,
    },
}

impl SendError {
    /// In words, with the hint of the server.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Transient { message, .. } => message.clone(),
            Self::Refused { message, status, .. } => format!("{message} ({status})"),
        }
    }

    /// As an error of a command.
    #[must_use]
    pub fn into_error(self, server: &str) -> Error {
        match self {
            Self::Transient { message, .. } => Error::Server {
                message: format!("cannot reach the server `{server}`: {message}"),
                hint: "is it running, and is the address right? results stay on disk".to_owned(),
            },
            Self::Refused { status: 401 | 403, message, hint } => Error::Server {
                message: format!("the server `{server}` refused the token: {message}"),
                hint: if hint.is_empty() {
                    "give a token of scope `ingest` with `--token-file` or `CONFORMANCE_TOKEN`"
                        .to_owned()
                } else {
                    hint
                },
            },
            Self::Refused { status, message, hint } => Error::Server {
                message: format!("the server `{server}` refused ({status}): {message}"),
                hint,
            },
        }
    }
}

/// A server, as the runner sees it.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// Chooses what encrypts connections, for every client of this process.
pub(crate) fn install_tls() {
    // Fails only when one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Client {
    /// A client for an address such as `http://127.0.0.1:8080`.
    pub fn new(base: &str, token: Option<String>) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Usage {
            message: format!("`{base}` is no server address: {problem}"),
            hint: "an address reads `http://host:port`".to_owned(),
        };
        let url = reqwest::Url::parse(base).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it begins neither with `http://` nor with `https://`".to_owned()));
        }
        install_tls();
        let http = reqwest::Client::builder()
            .timeout(REQUEST_LIMIT)
            .connect_timeout(CONNECT_LIMIT)
            .user_agent(concat!("torchtpu-conformance-runner/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// The address, without a slash at its end.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Announces a run.
    pub async fn create_run(
        &self,
        run: &create_run::Request,
    ) -> Result<create_run::Response, SendError> {
        self.send(Method::POST, "/api/v1/runs", run).await
    }

    /// Sends the plan.
    pub async fn put_manifest(
        &self,
        run: &RunKey,
        manifest: &put_manifest::Request,
    ) -> Result<put_manifest::Response, SendError> {
        self.send(Method::PUT, &format!("/api/v1/runs/{run}/manifest"), manifest).await
    }

    /// Sends which overloads the build has.
    pub async fn put_inventory(
        &self,
        run: &RunKey,
        inventory: &Inventory,
    ) -> Result<put_inventory::Response, SendError> {
        self.send(Method::PUT, &format!("/api/v1/runs/{run}/inventory"), inventory).await
    }

    /// Sends attempts.
    pub async fn post_results(
        &self,
        run: &RunKey,
        batch: &post_results::Request,
    ) -> Result<post_results::Response, SendError> {
        self.send(Method::POST, &format!("/api/v1/runs/{run}/results"), batch).await
    }

    /// Sends a file that attempts left, under the hash of what it holds.
    pub async fn put_artifact(&self, sha256: &str, contents: Vec<u8>) -> Result<(), SendError> {
        let request = self
            .http
            .put(format!("{}/api/v1/artifacts/{sha256}", self.base))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(contents);
        let answer = self.authorised(request).send().await.map_err(|error| transient(&error))?;
        if answer.status().is_success() { Ok(()) } else { Err(refusal(answer).await) }
    }

    /// Names files of attempts.
    pub async fn link_artifacts<L: Serialize + Sync>(
        &self,
        run: &RunKey,
        journal: &str,
        links: &[L],
    ) -> Result<(), SendError> {
        let body = serde_json::json!({ "journal": journal, "artifacts": links });
        let path = format!("/api/v1/runs/{run}/artifacts");
        self.request(Method::POST, &path, &body).await.map(drop)
    }

    /// Says that there is nothing more to send.
    pub async fn seal_run(
        &self,
        run: &RunKey,
        seal: &seal_run::Request,
    ) -> Result<seal_run::Response, SendError> {
        self.send(Method::POST, &format!("/api/v1/runs/{run}/seal"), seal).await
    }

    /// Asks a gate; the answer is given as the server wrote it.
    pub async fn gate(
        &self,
        name: &str,
        candidate: &str,
        device: Option<&str>,
    ) -> Result<serde_json::Value, SendError> {
        let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        let mut url = reqwest::Url::parse(&format!("{}/api/v1/gates/{name}", self.base))
            .map_err(|error| transient(&error))?;
        url.query_pairs_mut().append_pair("candidate", candidate);
        if let Some(device) = device {
            url.query_pairs_mut().append_pair("device", device);
        }
        let request = self.authorised(self.http.get(url));
        read(request.send().await.map_err(|error| transient(&error))?).await
    }

    /// Device profile of a run.
    pub async fn device_profile(&self, run: &RunKey) -> Result<String, SendError> {
        #[derive(Deserialize)]
        struct Run {
            device_profile: String,
        }
        let run: Run = self.show(&format!("/api/v1/runs/{run}"), &[]).await?;
        Ok(run.device_profile)
    }

    /// Every planned case of a run, in the order of its manifest.
    pub async fn cases(&self, run: &RunKey) -> Result<Vec<ServedCase>, SendError> {
        #[derive(Deserialize)]
        struct Page {
            cases: Vec<ServedCase>,
            next: Option<String>,
        }
        let path = format!("/api/v1/runs/{run}/cases");
        let mut cases = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", PAGE_LINES)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: Page = self.show(&path, &query).await?;
            cases.extend(page.cases);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(cases),
            }
        }
    }

    /// Whether the server is up and can write.
    pub async fn ready(&self) -> Result<(), SendError> {
        let request = self.http.get(format!("{}/readyz", self.base));
        let response = request.send().await.map_err(|error| transient(&error))?;
        if response.status().is_success() { Ok(()) } else { Err(refusal(response).await) }
    }

    async fn show<A: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<A, SendError> {
        let mut url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| transient(&error))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.authorised(self.http.get(url));
        read(request.send().await.map_err(|error| transient(&error))?).await
    }

    async fn send<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Q,
    ) -> Result<A, SendError> {
        read(self.request(method, path, body).await?).await
    }

    /// The answer to a body, when it is a success.
    async fn request<Q: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: &Q,
    ) -> Result<reqwest::Response, SendError> {
        let json = serde_json::to_vec(body).expect("our messages have text keys only");
        let mut encoder = async_compression::tokio::bufread::ZstdEncoder::new(json.as_slice());
        let mut body = Vec::new();
        encoder.read_to_end(&mut body).await.expect("compressing in memory cannot fail");
        let request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONTENT_ENCODING, "zstd")
            .body(body);
        let answer = self.authorised(request).send().await.map_err(|error| transient(&error))?;
        if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer).await) }
    }

    fn authorised(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

async fn read<A: DeserializeOwned>(response: reqwest::Response) -> Result<A, SendError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let body = response.bytes().await.map_err(|error| transient(&error))?;
    serde_json::from_slice(&body).map_err(|error| SendError::Refused {
        status: 200,
        message: format!("its answer is not what was expected: {error}"),
        hint: "is this the address of a conformance server, of the same version?".to_owned(),
    })
}

async fn refusal(response: reqwest::Response) -> SendError {
    let status = response.status();
    let seconds = response.headers().get(header::RETRY_AFTER);
    let retry_after =
        seconds.and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let body = response.bytes().await.unwrap_or_default();
    let (message, hint) = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => (body.title, body.hint),
        Err(_) => {
            (status.canonical_reason().unwrap_or("no reason given").to_owned(), String::new())
        }
    };
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        SendError::Transient { message: format!("{message} ({status})"), retry_after }
    } else {
        SendError::Refused { status: status.as_u16(), message, hint }
    }
}

/// The innermost cause says most: `Connection refused`.
fn transient(error: &dyn std::error::Error) -> SendError {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    SendError::Transient { message: cause.to_string(), retry_after: None }
}

/// The pause before the next try: what the server asked for, else doubling, with some chance in it
/// so that many runners do not come back at once.
#[must_use]
pub fn pause_before(tries: u32, retry_after: Option<Duration>) -> Duration {
    let doubling = Duration::from_millis(250) * 2_u32.saturating_pow(tries.min(8));
    let pause = retry_after.unwrap_or(doubling).min(MAX_PAUSE);
    pause.mul_f64(rand::random_range(0.8..1.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_obey_the_server() {
        assert!(pause_before(0, None) < Duration::from_millis(301));
        assert!(pause_before(3, None) > Duration::from_millis(1500));
        assert!(pause_before(30, None) <= MAX_PAUSE.mul_f64(1.2));
        let asked = pause_before(0, Some(Duration::from_secs(5)));
        assert!((Duration::from_secs(4)..=Duration::from_secs(6)).contains(&asked));
    }

    #[test]
    fn an_address_must_be_one() {
        for bad in ["localhost:8080", "ftp://x", "", "http://"] {
            let error = Client::new(bad, None).unwrap_err();
            assert_eq!(error.exit(), crate::exit::Exit::Usage, "{bad}");
        }
        assert_eq!(Client::new("http://h:1/", None).unwrap().base(), "http://h:1");
    }
}
