//! What was published of the backend beside what this server measured on one device profile. A
//! figure stands as confirmed only by a complete run of real hardware over as many subjects as the
//! claim had; everything that keeps two figures apart is said beside them.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use protocol::Suite;
use protocol::coverage::{Coverage, Definition};
use serde::Deserialize;
use sqlx::PgPool;

use super::claim_subjects::Subjects;
use super::count::{self, Count};
use super::coverage;
use super::rows;
use super::scope::{self, Scope};
use super::view::{self, Choice, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::read_operators;
use crate::db::read_runs::RunView;
use crate::db::read_variants;
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

/// Names listed beside a claim; the rest stand behind its link.
const FIRST_DIFFERENCES: usize = 12;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/claims", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
    definition: Option<String>,
}

/// A figure that was published.
#[derive(Debug, Clone, Copy)]
struct Claim {
    id: &'static str,
    title: &'static str,
    suite: Suite,
    published: Published,
    /// How the publisher defines it.
    definition: &'static str,
    /// How it is measured here.
    measured_as: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Published {
    /// So many of so many.
    Ratio(u64, u64),
    /// About so many, of a number that was not published.
    About(u64),
}

const CLAIMS: [Claim; 4] = [
    Claim {
        id: "operators",
        title: "ATen operators",
        suite: Suite::Operators,
        published: Published::About(450),
        definition: "ATen operators that the backend implements, structural and composite \
                     delegates excluded",
        measured_as: "ATen operators that a passing case of the operator suite dispatched, of \
                      those that any case dispatched or was stopped by; composites are not \
                      excluded",
    },
    Claim {
        id: "tier1",
        title: "Tier 1",
        suite: Suite::Tier1,
        published: Published::Ratio(4_821, 4_917),
        definition: "models that run without a crash",
        measured_as: "models of which every planned case passed, of all models planned",
    },
    Claim {
        id: "tier2",
        title: "Tier 2",
        suite: Suite::Tier2,
        published: Published::Ratio(638, 657),
        definition: "models at parity with the GPU",
        measured_as: "models of which every planned case agrees with its reference, of all models \
                      planned",
    },
    Claim {
        id: "dynamism",
        title: "Bounded dynamism",
        suite: Suite::Dynamism,
        published: Published::Ratio(834, 839),
        definition: "causal language models correct with bounded dynamic sizes",
        measured_as: "models of which every planned case passed its sweep, of all models planned",
    },
];

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/claims.html")]
struct ClaimsPage {
    shell: Shell,
    scope: Scope,
    claims: Vec<ClaimLine>,
    /// Definitions that operators can be counted by here; the value is the address.
    definitions: Vec<Choice>,
}

#[derive(Debug)]
struct ClaimLine {
    id: &'static str,
    title: &'static str,
    published: String,
    published_rate: String,
    definition: &'static str,
    measured_as: String,
    answer: Mark,
    measured: Option<Measured>,
}

#[derive(Debug)]
struct Measured {
    part: u64,
    whole: u64,
    rate: String,
    run: String,
    run_href: String,
    measured_at: DateTime<Utc>,
    simulated: bool,
    manifest: String,
    cases: Count,
    /// What keeps it from standing beside the claim.
    caveats: Vec<String>,
    /// By which definition of coverage it was counted, when it was by one.
    definition: Option<Definition>,
    differences: u64,
    differences_href: String,
    /// The first of them, with their pages.
    first_differences: Vec<(String, String)>,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<ClaimsPage> {
    let pool = state.db.pool();
    let now = state.clock.now();
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, Suite::ALL, Suite::ALL, now).await?;
    let definition = view::word::<Definition>(asked.definition.as_deref())?;
    let definition = definition.unwrap_or(coverage::DEFAULT);
    let counted = coverage::count_build(pool, &scope).await?;
    let chosen = counted.iter().find(|coverage| coverage.definition == definition);
    let mut claims = Vec::with_capacity(CLAIMS.len());
    for claim in CLAIMS {
        let measured = match scope.run_key_of(claim.suite) {
            Some(key) => match scope.runs.iter().find(|run| run.key == key) {
                Some(run) => Some(Measured::make(pool, claim, run, chosen, now).await?),
                None => None,
            },
            None => None,
        };
        claims.push(ClaimLine::new(claim, measured));
    }
    let definitions = counted.iter().map(|coverage| Choice {
        value: {
            let mut parameters = vec![("definition", coverage.definition.as_str())];
            parameters.extend(scope.pin.split_once('='));
            view::link("/claims", &parameters)
        },
        label: coverage.definition.to_string(),
        chosen: coverage.definition == definition,
    });
    Ok(ClaimsPage {
        shell: Shell::new(Section::Claims),
        definitions: definitions.collect(),
        scope,
        claims,
    })
}

impl Published {
    fn say(self) -> (String, String) {
        match self {
            Self::Ratio(part, whole) => (
                format!(
                    "{} of {}",
                    filters::group_digits(&part.to_string()),
                    filters::group_digits(&whole.to_string())
                ),
                count::percent(part, whole),
            ),
            Self::About(number) => {
                (format!("about {}", filters::group_digits(&number.to_string())), String::new())
            }
        }
    }

    /// Whether a measured figure is at least as good. Exact: no rate is rounded.
    fn is_met_by(self, part: u64, whole: u64) -> bool {
        match self {
            Self::Ratio(claimed, of) => {
                u128::from(part) * u128::from(of) >= u128::from(claimed) * u128::from(whole)
            }
            Self::About(claimed) => part >= claimed,
        }
    }
}

impl ClaimLine {
    fn new(claim: Claim, measured: Option<Measured>) -> Self {
        let (published, published_rate) = claim.published.say();
        let answer = match &measured {
            None => Mark { word: "no data", shape: "gap", tone: "absent" },
            Some(own) if !own.caveats.is_empty() => {
                Mark { word: "not comparable", shape: "ring", tone: "quiet" }
            }
            Some(own) if claim.published.is_met_by(own.part, own.whole) => {
                Mark { word: "reproduced", shape: "tick", tone: "neutral" }
            }
            Some(_) => Mark { word: "not reproduced", shape: "cross", tone: "bad" },
        };
        Self {
            id: claim.id,
            title: claim.title,
            published,
            published_rate,
            definition: claim.definition,
            measured_as: match measured.as_ref().and_then(|own| own.definition) {
                Some(definition) => format!(
                    "{}, as the dispatcher of the build says ({definition}); whether they work \
                     is not asked",
                    definition.describe()
                ),
                None => claim.measured_as.to_owned(),
            },
            answer,
            measured,
        }
    }
}

impl Measured {
    async fn make(
        pool: &PgPool,
        claim: Claim,
        run: &RunView,
        coverage: Option<&Coverage>,
        now: DateTime<Utc>,
    ) -> sqlx::Result<Self> {
        let (ids, suites) = ([run.id], [claim.suite.to_string()]);
        let counts = read_variants::count_by_subject(pool, &ids, &suites, None).await?;
        let mut subjects: BTreeMap<&str, Count> = BTreeMap::new();
        let mut cases = Count::default();
        for row in &counts {
            let outcome = row.outcome.map(|word| word.0);
            let subject = subjects.entry(&row.name).or_default();
            subject.add(row.verdict.0, outcome, row.cases);
            cases.add(row.verdict.0, outcome, row.cases);
        }
        let pin = format!("run={}", run.key);
        let subjects = match coverage {
            Some(coverage) if claim.suite == Suite::Operators => Subjects::of_coverage(coverage),
            _ if claim.suite == Suite::Operators => {
                let rows = read_operators::count_overloads(pool, &ids, &suites, None).await?;
                Subjects::of_operators(&rows)
            }
            _ => Subjects::of_models(&subjects),
        };
        let whole = subjects.whole;
        let part = whole - subjects.failing_weight;
        let differences_href = match (claim.suite, subjects.definition) {
            (Suite::Operators, Some(definition)) => coverage::href(definition, &pin),
            (Suite::Operators, None) => view::link(
                "/operators",
                &[("view", "overloads"), ("show", "failing"), ("run", &run.key)],
            ),
            (Suite::Tier1 | Suite::Tier2 | Suite::Dynamism | Suite::Imported(_), _) => {
                view::link("/models", &[("show", "failing"), ("run", &run.key)])
            }
        };
        let page_of = |name: &String| match claim.suite {
            Suite::Operators => view::operator_href(name, &pin),
            Suite::Tier1 | Suite::Tier2 | Suite::Dynamism | Suite::Imported(_) => {
                view::model_href(name, &pin)
            }
        };
        let first = subjects.failing.iter().take(FIRST_DIFFERENCES);
        Ok(Self {
            rate: count::percent(part, whole),
            run_href: view::link(&view::run_href(&run.key), &[("suite", claim.suite.as_str())])
                + "#cases",
            measured_at: rows::measured_at(run),
            simulated: run.simulated,
            manifest: run.manifest_hash.as_deref().map_or(String::new(), |hash| hash[..12].into()),
            caveats: caveats(claim, run, &cases, whole, now),
            definition: subjects.definition,
            differences: whole - part,
            differences_href,
            first_differences: first.map(|name| (name.clone(), page_of(name))).collect(),
            run: run.key.clone(),
            part,
            whole,
            cases,
        })
    }
}

/// Everything that keeps a measured figure from standing beside the published one.
fn caveats(
    claim: Claim,
    run: &RunView,
    cases: &Count,
    whole: u64,
    now: DateTime<Utc>,
) -> Vec<String> {
    let mut caveats = Vec::new();
    if run.simulated {
        caveats.push("simulated: no TPU computed it".to_owned());
    } else if run.device_profile != "tpu" {
        caveats.push(format!("measured on `{}`, not on a TPU", run.device_profile));
    }
    if run.completeness.as_deref() != Some("complete") || !cases.is_complete() {
        caveats.push(format!(
            "not complete: {} of {} planned cases were judged",
            filters::group_digits(&cases.judged().to_string()),
            filters::group_digits(&cases.planned().to_string())
        ));
    }
    if run.completeness.as_deref() == Some("void") {
        caveats.push("withdrawn: it is no evidence".to_owned());
    }
    match claim.published {
        Published::Ratio(_, of) if of != whole => caveats.push(format!(
            "subjects: {} here, {} in the claim",
            filters::group_digits(&whole.to_string()),
            filters::group_digits(&of.to_string())
        )),
        Published::Ratio(..) => {}
        Published::About(_) => {
            caveats.push("the publisher names no definition and no denominator".to_owned());
        }
    }
    if rows::is_stale(run, now) {
        let age = filters::say_duration(now - rows::measured_at(run));
        caveats.push(format!("stale: measured {age} ago"));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_met_without_rounding() {
        let claim = Published::Ratio(4_821, 4_917);
        assert!(claim.is_met_by(4_821, 4_917));
        assert!(!claim.is_met_by(4_820, 4_917));
        assert!(claim.is_met_by(1, 1), "the size is for the caveats to say");
        assert!(!claim.is_met_by(98, 100), "98.00 % is less than 98.04 %");
        assert!(Published::About(450).is_met_by(450, 900));
        assert!(!Published::About(450).is_met_by(449, 449));
    }

    #[test]
    fn a_figure_with_a_caveat_reproduces_nothing() {
        let measured = |caveats: &[&str]| Measured {
            part: 4_917,
            whole: 4_917,
            rate: "100 %".to_owned(),
            run: "r".to_owned(),
            run_href: String::new(),
            measured_at: DateTime::UNIX_EPOCH,
            simulated: false,
            manifest: String::new(),
            cases: Count::default(),
            caveats: caveats.iter().map(ToString::to_string).collect(),
            definition: None,
            differences: 0,
            differences_href: String::new(),
            first_differences: Vec::new(),
        };
        let word = |own: Option<Measured>| ClaimLine::new(CLAIMS[1], own).answer.word;
        assert_eq!(word(None), "no data");
        assert_eq!(word(Some(measured(&["simulated"]))), "not comparable");
        assert_eq!(word(Some(measured(&[]))), "reproduced");
        let worse = Measured { part: 4_000, ..measured(&[]) };
        assert_eq!(word(Some(worse)), "not reproduced");
    }
}
