CREATE TABLE case_verdicts (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    case_id bigint NOT NULL REFERENCES cases,
    position integer NOT NULL,
    verdict text NOT NULL CONSTRAINT case_verdicts_verdict_words CHECK (
        verdict IN ('passed', 'fixed', 'failed', 'regressed', 'flaky', 'waived',
                    'unexpected pass', 'skipped', 'inconclusive', 'missing')
    ),
    outcome text CONSTRAINT case_verdicts_outcome_words CHECK (
        outcome IN ('pass', 'mismatch', 'error', 'unsupported', 'fallback', 'crash', 'timeout',
                    'oom', 'skipped', 'infra', 'host-limit')
    ),
    attempts integer NOT NULL DEFAULT 0,
    decisive_attempt integer,
    stage text,
    error_class text NOT NULL DEFAULT '',
    message text NOT NULL DEFAULT '',
    operator text,
    seconds double precision NOT NULL DEFAULT 0,
    signature text REFERENCES signatures,
    baseline_run_id bigint REFERENCES runs ON DELETE SET NULL,
    waiver_id bigint,
    judged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, case_id),
    CHECK ((verdict = 'missing') = (attempts = 0)),
    CHECK ((outcome IS NULL) = (attempts = 0))
);
COMMENT ON TABLE case_verdicts IS
    'Judgement of every planned case, from the moment it is planned. Derived: it can be computed again from attempts, waivers and earlier runs';
COMMENT ON COLUMN case_verdicts.position IS 'Of the manifest, so that a page of a run needs no join to be in order';
COMMENT ON COLUMN case_verdicts.outcome IS 'The worst conclusive outcome over the attempts; its details are those of decisive_attempt';
COMMENT ON COLUMN case_verdicts.seconds IS 'Sum over the attempts';
COMMENT ON COLUMN case_verdicts.baseline_run_id IS
    'Run that last passed this case on this device profile, before this one';
CREATE INDEX case_verdicts_history ON case_verdicts (case_id, run_id DESC);
CREATE INDEX case_verdicts_by_verdict ON case_verdicts (run_id, verdict, position);
CREATE INDEX case_verdicts_by_signature ON case_verdicts (signature, run_id DESC)
    WHERE signature IS NOT NULL;

CREATE TABLE run_tallies (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    suite text NOT NULL,
    verdict text NOT NULL,
    cases bigint NOT NULL CHECK (cases >= 0),
    PRIMARY KEY (run_id, suite, verdict)
);
COMMENT ON TABLE run_tallies IS
    'Cases per verdict, changed in the same transaction as case_verdicts, so that lists of runs scan nothing';

CREATE TABLE operators (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    overload text NOT NULL UNIQUE CHECK (octet_length(overload) BETWEEN 1 AND 300),
    operator text NOT NULL
);
COMMENT ON COLUMN operators.overload IS 'aten::add.Tensor';
COMMENT ON COLUMN operators.operator IS 'aten::add: the overload without its last part';
CREATE INDEX operators_operator ON operators (operator);

CREATE TABLE operator_cases (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    operator_id bigint NOT NULL REFERENCES operators,
    case_id bigint NOT NULL REFERENCES cases,
    calls bigint,
    fell_back boolean NOT NULL DEFAULT false,
    blamed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, operator_id, case_id)
);
COMMENT ON TABLE operator_cases IS
    'Which cases of a run touched which overload, taken out of the evidence at ingest';
COMMENT ON COLUMN operator_cases.calls IS
    'Dispatches counted; null when recording did not finish, which is not zero';
COMMENT ON COLUMN operator_cases.fell_back IS 'The backend computed it on the CPU instead';
COMMENT ON COLUMN operator_cases.blamed IS
    'The error names it, or it was the last one entered before a crash';
CREATE INDEX operator_cases_by_operator ON operator_cases (operator_id, run_id DESC);
CREATE INDEX operator_cases_by_case ON operator_cases (case_id, run_id DESC);
