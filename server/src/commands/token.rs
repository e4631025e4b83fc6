//! `server token`: who may write. The secret goes to standard output once, everything else to
//! standard error.

use std::process::ExitCode;

use serde_json::json;

use super::Opened;
use crate::args::TokenCommand;
use crate::db::tokens::{self, Scope, Token};
use crate::db::{Db, audit};
use crate::embedded::Use;
use crate::trouble::Trouble;

pub(super) async fn run(command: TokenCommand) -> anyhow::Result<ExitCode> {
    let database = match &command {
        TokenCommand::Create { database, .. }
        | TokenCommand::List { database }
        | TokenCommand::Rotate { database, .. }
        | TokenCommand::Revoke { database, .. } => database,
    };
    let opened = Opened::open(database, Use::Command).await?;
    let done = match &command {
        TokenCommand::Create { name, scope, .. } => create(&opened.db, name, scope).await,
        TokenCommand::List { .. } => list(&opened.db).await,
        TokenCommand::Rotate { name, .. } => rotate(&opened.db, name).await,
        TokenCommand::Revoke { name, .. } => revoke(&opened.db, name).await,
    };
    opened.close().await?;
    done.map(|()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the secret is the command's data")]
async fn create(db: &Db, name: &str, scopes: &[Scope]) -> anyhow::Result<()> {
    if name.is_empty() || name.chars().count() > 80 || name.chars().any(char::is_control) {
        return Err(Trouble::error(
            format!("`{}` is not a name for a token", name.escape_debug()),
            "1 to 80 characters that say who will use it",
        ));
    }
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    let secret = tokens::new_secret();
    if !tokens::create(db.pool(), name, &secret, &scopes).await? {
        return Err(Trouble::error(
            format!("there is a token `{name}` already"),
            "choose another name; a revoked token keeps its own, for the audit log",
        ));
    }
    let detail = json!({ "scopes": scopes });
    audit::record(db.pool(), None, "token.create", name, detail).await?;
    println!("{secret}");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the list is the command's data")]
async fn list(db: &Db) -> anyhow::Result<()> {
    for Token { name, scopes, created_at, last_used_at, revoked_at } in
        tokens::list(db.pool()).await?
    {
        let state = if revoked_at.is_some() { "revoked" } else { "valid" };
        let used = last_used_at.map_or("never".to_owned(), |at| at.format("%F %R").to_string());
        let scopes = scopes.join(",");
        println!("{name}\t{scopes}\t{state}\tmade {}\tused {used}", created_at.format("%F %R"));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the secret is the command's data")]
async fn rotate(db: &Db, name: &str) -> anyhow::Result<()> {
    let secret = tokens::new_secret();
    if !tokens::rotate(db.pool(), name, &secret).await? {
        return Err(Trouble::error(
            format!("there is no valid token `{name}`"),
            "`server token list` shows all of them",
        ));
    }
    audit::record(db.pool(), None, "token.rotate", name, json!({})).await?;
    println!("{secret}");
    Ok(())
}

async fn revoke(db: &Db, name: &str) -> anyhow::Result<()> {
    if !tokens::revoke(db.pool(), name).await? {
        return Err(Trouble::error(
            format!("there is no valid token `{name}`"),
            "`server token list` shows all of them",
        ));
    }
    audit::record(db.pool(), None, "token.revoke", name, json!({})).await?;
    Ok(())
}
