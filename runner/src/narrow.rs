//! What of the operator database a filter could choose a case of, told by names alone.
//!
//! An entry's cases are known only when its samples have been made, which takes minutes for the
//! whole database in every dtype. Most filters name one operator: all else is left out before.

use std::collections::BTreeSet;

use protocol::query::{Field, Query, Term};
use protocol::worker_link::{ListOperators, OperatorCase};
use protocol::{CaseKey, Dtype, Form, Mode};

use crate::filter::Filter;
use crate::operator_key::operator_key;

/// Leaves entries and dtypes out of the question of which the filter chooses no case, whatever
/// samples they have. What stays may still yield none: the filter itself has the last word.
pub fn narrow(question: &mut ListOperators, modes: &[Mode], filter: &Filter) {
    if filter.queries().is_empty() {
        return;
    }
    let could = |entry: &str, dtypes: &[Dtype], query: &Query| {
        let possible = possible_keys(entry, dtypes, question, modes, query);
        query.terms.iter().all(|term| could_hold(term, &possible))
    };
    let could_any = |entry: &str, dtypes: &[Dtype]| {
        filter.queries().iter().any(|query| could(entry, dtypes, query))
    };
    let entries: Vec<String> =
        question.entries.iter().filter(|e| could_any(e, &question.dtypes)).cloned().collect();
    // Inputs that must be refused have dtypes of their own, and are listed under one of those.
    let dtypes: Vec<Dtype> = if question.forms.contains(&Form::ErrorInputs) {
        question.dtypes.clone()
    } else {
        let is_wanted = |dtype: &Dtype| entries.iter().any(|entry| could_any(entry, &[*dtype]));
        question.dtypes.iter().copied().filter(is_wanted).collect()
    };
    question.entries = entries;
    question.dtypes = dtypes;
}

/// Whether the term holds for one of the keys that an entry might have. A negated one is held
/// against what every key of the entry has in common, and against nothing else.
fn could_hold(term: &Term, possible: &[CaseKey]) -> bool {
    let is_common = matches!(term.field, Field::Suite | Field::Operator | Field::Model);
    if term.negated && !is_common {
        return true;
    }
    // Which digit a `?` stands for is not known before the samples are.
    let mut term = term.clone();
    if term.field == Field::Case {
        term.alternatives.iter_mut().for_each(|text| *text = text.replace('?', "*"));
    }
    let query = Query { terms: vec![term] };
    possible.iter().any(|key| query.matches(key))
}

/// Keys that stand for all that the entry might have: every variant, each with the numbers of
/// samples that the query could mean.
fn possible_keys(
    entry: &str,
    dtypes: &[Dtype],
    question: &ListOperators,
    modes: &[Mode],
    query: &Query,
) -> Vec<CaseKey> {
    let layouts: BTreeSet<&str> = question.forms.iter().map(|form| layout(*form)).collect();
    let trains: &[bool] = if question.gradients { &[false, true] } else { &[false] };
    let refusals: &[bool] =
        if question.forms.contains(&Form::ErrorInputs) { &[false, true] } else { &[false] };
    let samples = numbers(query);
    let mut keys = Vec::new();
    for (dtype, layout) in dtypes.iter().flat_map(|dtype| layouts.iter().map(move |l| (dtype, l))) {
        for (train, error_input) in
            trains.iter().flat_map(|train| refusals.iter().map(move |refusal| (train, refusal)))
        {
            for sample in &samples {
                let case = OperatorCase {
                    entry: entry.to_owned(),
                    dtype: *dtype,
                    sample: *sample,
                    train: *train,
                    layout: (*layout).to_owned(),
                    error_input: *error_input,
                };
                keys.extend(modes.iter().filter_map(|mode| operator_key(&case, *mode).ok()));
            }
        }
    }
    keys
}

/// Numbers of samples that the texts of the query could mean: 0, and whatever can be read from
/// the digits of a text in their order.
fn numbers(query: &Query) -> BTreeSet<u32> {
    let texts = query.terms.iter().filter(|term| term.field == Field::Case);
    let mut found = BTreeSet::from([0]);
    for text in texts.flat_map(|term| &term.alternatives) {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        for from in 0..digits.len() {
            found.extend(
                (from + 1..=digits.len()).filter_map(|to| digits[from..to].parse::<u32>().ok()),
            );
        }
    }
    found
}

/// How the variant of a form is spelled; most forms only choose among the samples.
fn layout(form: Form) -> &'static str {
    match form {
        Form::Out | Form::Inplace | Form::Noncontiguous | Form::Transposed | Form::Expanded => {
            form.as_str()
        }
        Form::Function | Form::Empty | Form::ZeroDim | Form::Module | Form::ErrorInputs => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: [&str; 5] =
        ["add", "sub", "nn.functional.conv1d", "special.i0", "module:nn.ReLU"];

    fn question(forms: &[Form]) -> ListOperators {
        ListOperators {
            entries: ENTRIES.map(str::to_owned).to_vec(),
            dtypes: vec![Dtype::Float32, Dtype::Bfloat16, Dtype::Int64],
            samples: 3,
            gradients: true,
            forms: forms.to_vec(),
        }
    }

    fn narrowed(filters: &[&str], forms: &[Form]) -> (Vec<String>, Vec<Dtype>) {
        let filters: Vec<String> = filters.iter().map(|text| (*text).to_owned()).collect();
        let mut question = question(forms);
        narrow(&mut question, &[Mode::Eager, Mode::Compile], &Filter::parse(&filters).unwrap());
        (question.entries, question.dtypes)
    }

    #[test]
    fn what_no_filter_can_choose_is_not_listed() {
        let all = [Dtype::Float32, Dtype::Bfloat16, Dtype::Int64];
        let forms = [Form::Function, Form::Out];
        for (filters, entries, dtypes) in [
            (&["sub"][..], &["sub"][..], &all[..]),
            (&["op:add", "conv1d"], &["add", "nn.functional.conv1d"], &all),
            (&["opinfo:special.i0#17/bfloat16"], &["special.i0"], &[Dtype::Bfloat16]),
            (&["dtype:int64 op:add"], &["add"], &[Dtype::Int64]),
            (&["dtype:!int64 op:add"], &["add"], &all),
            (&["op:!add,sub,special.*"], &["nn.functional.conv1d", "module:nn.ReLU"], &all),
            (&["!add"], &ENTRIES, &all),
            (&["*i0#2?5*eager*"], &["special.i0"], &all),
            (&["*conv1d*#1*5/float32*"], &["nn.functional.conv1d"], &[Dtype::Float32]),
            (&["eager.train.out"], &ENTRIES, &all),
            (&["#12/"], &ENTRIES, &all),
            (&["layout:inplace"], &[], &[]),
            (&["suite:tier1"], &[], &[]),
            (&["model:llama"], &[], &[]),
            (&["mode:strict"], &[], &[]),
            (&["NN.RELU"], &["module:nn.ReLU"], &all),
        ] {
            let (found, kept) = narrowed(filters, &forms);
            assert_eq!(found, entries, "{filters:?}");
            assert_eq!(kept, dtypes, "{filters:?}");
        }
    }

    #[test]
    fn inputs_that_must_be_refused_keep_the_dtypes_that_they_are_listed_by() {
        let (entries, dtypes) = narrowed(&["add#error3 dtype:bf16"], &[Form::ErrorInputs]);
        assert_eq!(entries, ["add"]);
        assert_eq!(dtypes.len(), 3);
        assert_eq!(narrowed(&["add#error3"], &[Form::Function]).0, [""; 0]);
    }

    /// The filter is asked about every key there could be: nothing that it chooses may go missing.
    #[test]
    fn nothing_that_a_filter_chooses_is_left_out() {
        let forms = [Form::Function, Form::Out, Form::ErrorInputs];
        for text in
            ["#1", "d#12", "0#20?", "*1*2*", "!#3 dtype:!int64", "r#3/f", "?", "layout:!out"]
        {
            let filter = Filter::parse(&[text.to_owned()]).unwrap();
            let (entries, dtypes) = narrowed(&[text], &forms);
            let everything = question(&forms);
            for (entry, sample) in
                ENTRIES.iter().flat_map(|entry| (0..300).map(move |n| (entry, n)))
            {
                for dtype in &everything.dtypes {
                    for (layout, error_input) in [("", false), ("out", false), ("", true)] {
                        let case = OperatorCase {
                            entry: (*entry).to_owned(),
                            dtype: *dtype,
                            sample,
                            train: false,
                            layout: layout.to_owned(),
                            error_input,
                        };
                        let key = operator_key(&case, Mode::Eager).unwrap();
                        let listed = entries.contains(&case.entry) && dtypes.contains(dtype);
                        assert!(listed || !filter.chooses(&key), "{text}: {key}");
                    }
                }
            }
        }
    }
}
