//! The command line as a whole.

use clap::{Args, Parser, Subcommand};

use super::{
    BlockersArgs, CompletionsArgs, CoverageArgs, DeviceArgs, DevicesArgs, DoctorArgs,
    ExecutionArgs, ExplainArgs, GateArgs, GoldenArgs, GoldenCommandArgs, ListArgs, ManArgs,
    PlanArgs, PushArgs, RecordArgs, ReportArgs, ReproArgs, RerunArgs, ResultArgs, ResumeArgs,
    ServerArgs, SetupCommandArgs,
};
use crate::exit::Exit;

/// Runs TorchTPU conformance suites: plans cases, executes each in a worker process that may
/// crash alone, compares with a reference, and reports.
#[derive(Debug, Parser)]
#[command(
    name = "runner",
    version,
    args_conflicts_with_subcommands = true,
    after_help = Exit::table(),
    max_term_width = 100
)]
pub struct Cli {
    /// What to do; without a command, suites are run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings of a run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The commands beside running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the locked Python environment (torch, torch_tpu, transformers, …) in the cache, and
    /// print the path of its Python.
    Setup(SetupCommandArgs),
    /// Print the plan: one case key per line; executes nothing on the device.
    List(Box<ListArgs>),
    /// Show which devices this host has and which one `auto` chooses.
    Devices(DevicesArgs),
    /// Check everything a run needs, and say how to mend what is missing.
    Doctor(DoctorArgs),
    /// Execute the cases of an interrupted run that have no result yet.
    Resume(ResumeArgs),
    /// Execute again, as a new run, the cases of a run that failed, were flaky or are missing.
    Rerun(Box<RerunArgs>),
    /// Send the results of kept runs to a server.
    Push(PushArgs),
    /// Make the reports of a kept run again.
    Report(ReportArgs),
    /// Rank the operators that stand in the way of the models of a kept run.
    Blockers(BlockersArgs),
    /// Execute models on a device, and keep what it gives as goldens for Tier 2.
    Record(Box<RecordArgs>),
    /// Look after recorded goldens.
    Golden(GoldenCommandArgs),
    /// Ask a server whether a gate is open.
    Gate(GateArgs),
    /// Print how much of ATen a build covers, by named definitions.
    Coverage(Box<CoverageArgs>),
    /// Say why a case of a kept run does not hold: rule, figures, errors, worst elements.
    Explain(ExplainArgs),
    /// Print stand-alone Python that executes one case of a kept run.
    Repro(ReproArgs),
    /// Print the completions of a shell.
    Completions(CompletionsArgs),
    /// Print the man page of the program, or of one command.
    Man(ManArgs),
}

/// Settings of a run.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub golden: GoldenArgs,
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::{CommandFactory as _, Parser as _};
    use protocol::{Form, Suite};

    use super::*;

    #[test]
    fn the_flag_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_promised_command_line_is_understood() {
        let cli = Cli::parse_from(["runner", "--tier", "2", "--model-list", "mine.toml"]);
        assert_eq!(cli.run.plan.suites(), [Suite::Tier2]);
        assert_eq!(cli.run.plan.model_list, [PathBuf::from("mine.toml")]);
    }

    #[test]
    fn depth_and_forms_say_what_is_listed() {
        let of = |flags: &[&str]| {
            let all = [&["runner", "--suite", "operators"], flags].concat();
            let plan = Cli::parse_from(all).run.plan;
            (plan.selection.clone(), plan.most_samples(), plan.forms())
        };
        let function = vec![Form::Function];
        assert_eq!(of(&["--depth", "quick"]), ("all".to_owned(), 5, function.clone()));
        assert_eq!(of(&[]), of(&["--depth", "quick"]));
        assert_eq!(of(&["--depth", "full"]), ("all".to_owned(), 0, function));
        assert_eq!(of(&["--samples", "3", "--form", "all"]).1, 3);
        assert_eq!(of(&["--form", "all"]).2, Form::ALL);
        assert_eq!(of(&["--form", "out", "--form", "out"]).2, [Form::Out]);
        let both = ["runner", "--suite", "operators", "--samples", "3", "--depth", "full"];
        assert!(Cli::try_parse_from(both).is_err());
    }

    #[test]
    fn suites_are_taken_once_and_in_order() {
        let cli =
            Cli::parse_from(["runner", "--tier", "1", "--suite", "tier1", "--suite=operators"]);
        assert_eq!(cli.run.plan.suites(), [Suite::Operators, Suite::Tier1]);
    }
}
