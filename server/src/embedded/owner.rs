//! The user that PostgreSQL runs as: ourselves, or for root `postgres`, else `nobody`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use nix::unistd::{Gid, Uid, User, chown, geteuid};

use crate::trouble::Trouble;

/// Who.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    uid: Uid,
    gid: Gid,
    name: String,
    /// Whether we are root and must become this user for every program of PostgreSQL.
    drop: bool,
}

impl Owner {
    pub(super) fn choose() -> anyhow::Result<Self> {
        let me = geteuid();
        if !me.is_root() {
            let gid = nix::unistd::getegid();
            return Ok(Self { uid: me, gid, name: "you".to_owned(), drop: false });
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name).context("looking up users")? {
                return Ok(Self { uid: user.uid, gid: user.gid, name: user.name, drop: true });
            }
        }
        Err(Trouble::error(
            "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`",
            "run the server as an ordinary user, or give it `DATABASE_URL`",
        ))
    }

    /// A command that runs as this user, in its own process group so that Ctrl-C reaches only us,
    /// in a directory that exists for everybody, with messages that can be read by programs.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH").current_dir("/");
        for name in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(name);
        }
        command.process_group(0);
        if self.drop {
            command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
        }
        command
    }

    /// Makes a path this user's.
    pub(super) fn give(&self, path: &Path) -> anyhow::Result<()> {
        if self.drop {
            chown(path, Some(self.uid), Some(self.gid))
                .with_context(|| format!("giving `{}` to `{}`", path.display(), self.name))?;
        }
        Ok(())
    }

    /// Whether this user can get to the path: every directory above must let it through.
    pub(super) fn can_reach(&self, path: &Path) -> bool {
        if !self.drop {
            return true;
        }
        path.ancestors().all(|directory| {
            std::fs::metadata(directory).is_ok_and(|metadata| {
                let mode = metadata.permissions().mode();
                mode & 0o001 != 0
                    || (metadata.uid() == self.uid.as_raw() && mode & 0o100 != 0)
                    || (metadata.gid() == self.gid.as_raw() && mode & 0o010 != 0)
            })
        })
    }

    pub(super) fn check_reach(&self, path: &Path) -> anyhow::Result<()> {
        if self.can_reach(path) {
            return Ok(());
        }
        Err(Trouble::error(
            format!(
                "`{}` is closed to the user `{}`, which PostgreSQL runs as because it refuses root",
                path.display(),
                self.name
            ),
            "choose a `--data-dir` that everybody can pass through, for example below `/var/lib`",
        ))
    }

    /// Whether a directory that must be private is this user's.
    pub(super) fn owns(&self, metadata: &std::fs::Metadata) -> bool {
        metadata.uid() == self.uid.as_raw()
    }
}
