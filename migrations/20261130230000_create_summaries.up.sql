ALTER TABLE runs ADD COLUMN summarised boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN runs.summarised IS
    'Whether run_subjects and run_overloads hold what counted_subjects and counted_overloads would count; where they do not, pages count';
ALTER TABLE runs ADD COLUMN changes bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN runs.changes IS
    'Raised by whatever changes verdicts of the run or what its cases touched, so that what was counted before is known to be old';
CREATE INDEX runs_to_summarise ON runs (started_at) WHERE NOT summarised AND state = 'sealed';

CREATE VIEW counted_subjects AS
SELECT v.run_id, c.suite, c.subject_base, c.dtype, c.mode, c.direction, c.layout, v.verdict,
       v.outcome, count(*) AS cases
FROM case_verdicts v JOIN cases c ON c.id = v.case_id
GROUP BY v.run_id, c.suite, c.subject_base, c.dtype, c.mode, c.direction, c.layout, v.verdict,
         v.outcome;
COMMENT ON VIEW counted_subjects IS 'Cases of a run by subject, variant, verdict and outcome';

CREATE VIEW counted_overloads AS
SELECT t.run_id, c.suite, t.operator_id, count(*) AS cases,
       count(*) FILTER (WHERE v.verdict IN ('passed', 'fixed', 'unexpected pass')) AS passed,
       count(*) FILTER (WHERE judged.bad) AS blamed,
       count(DISTINCT c.subject_base) AS subjects,
       coalesce(array_agg(DISTINCT c.subject_base) FILTER (WHERE judged.bad), '{}')
           AS blocked_subjects,
       count(*) FILTER (WHERE t.fell_back) AS fell_back,
       sum(t.calls)::bigint AS calls,
       coalesce(array_agg(DISTINCT v.outcome) FILTER (WHERE judged.bad), '{}') AS blamed_outcomes
FROM operator_cases t
JOIN cases c ON c.id = t.case_id
JOIN case_verdicts v ON v.run_id = t.run_id AND v.case_id = t.case_id
CROSS JOIN LATERAL (SELECT t.blamed AND v.verdict IN
                        ('failed', 'regressed', 'flaky', 'waived') AS bad) AS judged
GROUP BY t.run_id, c.suite, t.operator_id;
COMMENT ON VIEW counted_overloads IS 'Cases of a run that touched an overload, by suite';

CREATE TABLE run_subjects (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    suite text NOT NULL,
    subject_base text NOT NULL,
    dtype text,
    mode text,
    direction text,
    layout text,
    verdict text NOT NULL,
    outcome text,
    cases bigint NOT NULL
);
COMMENT ON TABLE run_subjects IS
    'counted_subjects of runs that are sealed, so that a page adds up some thousand rows and not every case';
CREATE INDEX run_subjects_of_suite ON run_subjects (run_id, suite);

CREATE TABLE run_overloads (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    suite text NOT NULL,
    operator_id bigint NOT NULL,
    cases bigint NOT NULL,
    passed bigint NOT NULL,
    blamed bigint NOT NULL,
    subjects bigint NOT NULL,
    blocked_subjects text[] NOT NULL,
    fell_back bigint NOT NULL,
    calls bigint,
    blamed_outcomes text[] NOT NULL,
    PRIMARY KEY (run_id, suite, operator_id)
);
COMMENT ON TABLE run_overloads IS 'counted_overloads of runs that are sealed';
