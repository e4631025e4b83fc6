//! Judgement: pure functions from attempts, waivers and earlier runs to verdicts, rates and the
//! gate's answer. No SQL, no async, no clock of its own.
