CREATE VIEW counted_overload_variants AS
SELECT t.run_id, c.suite, t.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
       v.outcome, count(*) AS cases
FROM operator_cases t
JOIN cases c ON c.id = t.case_id
JOIN case_verdicts v ON v.run_id = t.run_id AND v.case_id = t.case_id
WHERE c.suite = 'operators'
GROUP BY t.run_id, c.suite, t.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
         v.outcome;
COMMENT ON VIEW counted_overload_variants IS
    'Cases of the operator suite in a run that touched an overload, by variant, verdict and outcome';

CREATE TABLE run_overload_variants (
    run_id bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    suite text NOT NULL,
    operator_id bigint NOT NULL,
    dtype text,
    mode text,
    direction text,
    layout text,
    verdict text NOT NULL,
    outcome text,
    cases bigint NOT NULL
);
COMMENT ON TABLE run_overload_variants IS 'counted_overload_variants of runs that are sealed';
-- The page of one operator reads a few of these rows, the matrix all of them.
CREATE INDEX run_overload_variants_of_operator ON run_overload_variants (run_id, operator_id);

-- What is stored of earlier runs lacks the new table: they are counted, until it is made anew.
UPDATE runs SET summarised = false WHERE summarised;
COMMENT ON COLUMN runs.summarised IS
    'Whether run_subjects, run_overloads and run_overload_variants hold what the views counted_… would count; where they do not, pages count';
