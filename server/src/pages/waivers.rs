//! Waivers: what each one forgives, who answers for it, until when, and which cases it speaks of
//! on the newest runs. Those that end soon come first, and those that ended are not kept quiet.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::NaiveDate;
use protocol::Outcome;
use protocol::waiver::{Leave, Subject};

use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::read_home;
use crate::db::read_waived::{self, EXPIRING_DAYS, OpenCase};
use crate::db::waivers::{self, WaiverRow};
use crate::error::Result;
use crate::filters;
use crate::session::{MaybeSession, Session};

/// More than people keep in mind; a server with more says that it shows only these.
pub(super) const MOST_WAIVERS: i64 = 1000;
/// Cases shown of each.
const SHOWN_CASES: usize = 20;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/waivers", get(show))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/waivers.html")]
struct WaiversPage {
    shell: Shell,
    session: Option<Session>,
    groups: Vec<WaiverGroup>,
    runs: Vec<(String, String)>,
    total: usize,
    is_cut: bool,
}

#[derive(Debug)]
struct WaiverGroup {
    id: &'static str,
    title: String,
    remark: &'static str,
    is_loud: bool,
    waivers: Vec<WaiverLine>,
}

#[derive(Debug)]
struct WaiverLine {
    id: i64,
    case_pattern: String,
    operator: String,
    conditions: String,
    from_file: bool,
    outcomes: Vec<Mark>,
    reason: String,
    owner: String,
    issue: String,
    author: String,
    approver: String,
    expires_on: NaiveDate,
    /// `in 3 days`, `4 days ago`.
    due: String,
    /// Whether a person can end it here.
    can_end: bool,
    cases: Vec<CaseLine>,
    cases_total: usize,
    /// What the cases are to it.
    cases_are: &'static str,
}

#[derive(Debug)]
struct CaseLine {
    case: String,
    href: String,
    device: String,
    simulated: bool,
    verdict: Mark,
    outcome: Mark,
}

/// Where a waiver stands today, in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Expiring,
    Expired,
    Holds,
    Ended,
}

impl Standing {
    fn of(row: &WaiverRow, today: NaiveDate) -> Self {
        let left = (row.expires_on - today).num_days();
        match (row.revoked_at.is_some(), left) {
            (true, _) => Self::Ended,
            (false, ..=0) => Self::Expired,
            (false, left) if left <= i64::from(EXPIRING_DAYS) => Self::Expiring,
            (false, _) => Self::Holds,
        }
    }
}

async fn show(
    State(state): State<AppState>,
    MaybeSession(session): MaybeSession,
) -> Result<WaiversPage> {
    let pool = state.db.pool();
    let today = state.clock.today();
    let mut rows = waivers::list(pool, None, MOST_WAIVERS + 1).await?;
    let is_cut = rows.len() > MOST_WAIVERS as usize;
    rows.truncate(MOST_WAIVERS as usize);
    let newest: Vec<_> =
        read_home::list_newest_runs(pool).await?.into_iter().filter(|run| run.rank == 1).collect();
    let ids: Vec<i64> = newest.iter().map(|run| run.run_id).collect();
    let suites: Vec<String> = newest.iter().map(|run| run.suite.0.to_string()).collect();
    let open = read_waived::list_open_cases(pool, &ids, &suites).await?;
    let runs: BTreeSet<String> = newest.into_iter().map(|run| run.run_key).collect();

    let total = rows.len();
    let mut groups: BTreeMap<Standing, Vec<WaiverLine>> = BTreeMap::new();
    // They come with the one that ends last first.
    for row in rows.into_iter().rev() {
        let standing = Standing::of(&row, today);
        groups.entry(standing).or_default().push(WaiverLine::new(row, standing, &open, today)?);
    }
    Ok(WaiversPage {
        shell: Shell::new(Section::Waivers),
        session,
        groups: groups
            .into_iter()
            .map(|(standing, lines)| WaiverGroup::new(standing, lines))
            .collect(),
        runs: runs.into_iter().map(|key| (view::run_href(&key), key)).collect(),
        total,
        is_cut,
    })
}

impl WaiverGroup {
    fn new(standing: Standing, mut waivers: Vec<WaiverLine>) -> Self {
        let (id, title, remark, is_loud) = match standing {
            Standing::Expiring => (
                "expiring",
                format!("Expiring within {EXPIRING_DAYS} days"),
                "Repair what they forgive, or ask for them anew: on the day named they hold no \
                 longer, and the gate closes.",
                true,
            ),
            Standing::Expired => (
                "expired",
                "Expired".to_owned(),
                "These forgive nothing any more. What they named fails again where it is listed.",
                true,
            ),
            Standing::Holds => ("holding", "Holding".to_owned(), "", false),
            Standing::Ended => {
                ("ended", "Withdrawn".to_owned(), "Ended by a person before their time.", false)
            }
        };
        // The last that ended is the news.
        if matches!(standing, Standing::Expired | Standing::Ended) {
            waivers.reverse();
        }
        Self { id, title, remark, is_loud, waivers }
    }
}

/// When something is that is so many days ahead.
pub(super) fn say_due(days: i64) -> String {
    match days {
        0 => "today".to_owned(),
        1 => "tomorrow".to_owned(),
        2.. => format!("in {days} days"),
        -1 => "yesterday".to_owned(),
        _ => format!("{} days ago", -days),
    }
}

/// Where it holds, in words; `every device` without a condition.
pub(super) fn conditions(row: &WaiverRow) -> String {
    let list = |words: &[String]| words.join(" or ");
    let mut parts = match (row.device_profiles.as_slice(), row.device_kinds.as_slice()) {
        ([], []) => vec!["every device".to_owned()],
        (profiles, []) => vec![list(profiles)],
        ([], kinds) => vec![list(kinds)],
        (profiles, kinds) => vec![list(profiles), list(kinds)],
    };
    parts.extend(row.suite.as_ref().map(|suite| format!("suite {suite}")));
    parts.extend(row.model.as_ref().map(|model| format!("model {model}")));
    for words in [&row.dtypes, &row.modes] {
        parts.extend((!words.is_empty()).then(|| list(words)));
    }
    parts.extend(row.versions.0.iter().map(|(name, range)| format!("{name} {range}")));
    parts.join(", ")
}

impl WaiverLine {
    fn new(
        row: WaiverRow,
        standing: Standing,
        open: &[OpenCase],
        today: NaiveDate,
    ) -> Result<Self> {
        let terms = row.terms()?;
        let matches = |case: &&OpenCase| {
            let subject = Subject {
                case: &case.case,
                device_profile: &case.device_profile,
                device_kind: &case.device_kind,
                versions: &case.versions.0,
                operator: case.operator.as_deref(),
            };
            terms.leave(subject, case.outcome.0) != Leave::None
        };
        let matched: Vec<&OpenCase> = open.iter().filter(matches).collect();
        let days = (row.expires_on - today).num_days();
        Ok(Self {
            id: row.id,
            can_end: row.revoked_at.is_none() && days > 0 && !row.from_file,
            due: say_due(days),
            conditions: conditions(&row),
            operator: row.operator.unwrap_or_default(),
            from_file: row.from_file,
            outcomes: terms.outcomes.iter().copied().map(Mark::of_outcome).collect(),
            case_pattern: row.case_pattern,
            reason: row.reason,
            owner: row.owner,
            issue: row.issue,
            author: row.author,
            approver: row.approver,
            expires_on: row.expires_on,
            cases_total: matched.len(),
            cases: matched.into_iter().take(SHOWN_CASES).map(CaseLine::new).collect(),
            cases_are: match standing {
                Standing::Expiring | Standing::Holds => "cases it speaks of now",
                Standing::Expired | Standing::Ended => "cases that it no longer forgives",
            },
        })
    }
}

impl CaseLine {
    fn new(case: &OpenCase) -> Self {
        let outcome: Outcome = case.outcome.0;
        Self {
            href: view::case_href(&case.run_key, &case.case),
            case: case.case.clone(),
            device: case.device_profile.clone(),
            simulated: case.simulated,
            verdict: Mark::of_verdict(case.verdict.0),
            outcome: Mark::of_outcome(outcome),
        }
    }
}
