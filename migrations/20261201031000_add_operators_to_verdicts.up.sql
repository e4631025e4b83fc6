-- Whoever writes these rows holds the lock of their run, has locked the runs that it is compared
-- with, and has stored the signatures in the same transaction; a check of every row would find out
-- what is known. What is left is the other side: what was derived for a run goes with it.
ALTER TABLE manifest_entries DROP CONSTRAINT manifest_entries_run_id_fkey;
ALTER TABLE case_verdicts
    DROP CONSTRAINT case_verdicts_run_id_fkey,
    DROP CONSTRAINT case_verdicts_baseline_run_id_fkey,
    DROP CONSTRAINT case_verdicts_signature_fkey;
ALTER TABLE operator_cases DROP CONSTRAINT operator_cases_run_id_fkey;

CREATE FUNCTION delete_what_was_derived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM operator_cases WHERE run_id IN (SELECT id FROM gone);
    DELETE FROM case_verdicts WHERE run_id IN (SELECT id FROM gone);
    DELETE FROM manifest_entries WHERE run_id IN (SELECT id FROM gone);
    UPDATE case_verdicts SET baseline_run_id = NULL
    WHERE baseline_run_id IN (SELECT id FROM gone);
    RETURN NULL;
END
$$;
CREATE TRIGGER runs_take_what_was_derived AFTER DELETE ON runs
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION delete_what_was_derived();

-- The overloads of a case stand with its verdict, which is written anyway, instead of in an index
-- that every overload of every case is added to.
ALTER TABLE case_verdicts ADD COLUMN operators bigint[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN case_verdicts.operators IS
    'operator_id of its rows in operator_cases, sorted';
UPDATE case_verdicts v SET operators = touched.operators
FROM (
    SELECT run_id, case_id, array_agg(operator_id ORDER BY operator_id) AS operators
    FROM operator_cases GROUP BY run_id, case_id
) AS touched
WHERE v.run_id = touched.run_id AND v.case_id = touched.case_id;
DROP INDEX operator_cases_of_case;

-- What a case touched is looked up by the whole primary key. Of a run that is newer than the
-- statistics the planner believes that it has no rows, and would look through all of them for each
-- case; OFFSET 0 leaves it no choice.
CREATE VIEW touched_overloads AS
SELECT v.run_id, v.case_id, v.verdict, v.outcome, touched.operator_id, t.calls, t.fell_back,
       t.blamed,
       t.blamed AND v.verdict IN ('failed', 'regressed', 'flaky', 'waived') AS bad
FROM case_verdicts v
CROSS JOIN unnest(v.operators) AS touched (operator_id)
CROSS JOIN LATERAL (
    SELECT * FROM operator_cases t
    WHERE t.run_id = v.run_id AND t.operator_id = touched.operator_id AND t.case_id = v.case_id
    OFFSET 0
) AS t;
COMMENT ON VIEW touched_overloads IS
    'What the cases of a run touched, with their verdicts; to be limited by the run';

CREATE OR REPLACE VIEW counted_overloads AS
SELECT t.run_id, c.suite, t.operator_id, count(*) AS cases,
       count(*) FILTER (WHERE t.verdict IN ('passed', 'fixed', 'unexpected pass')) AS passed,
       count(*) FILTER (WHERE t.bad) AS blamed,
       count(DISTINCT c.subject_base) AS subjects,
       coalesce(array_agg(DISTINCT c.subject_base) FILTER (WHERE t.bad), '{}') AS blocked_subjects,
       count(*) FILTER (WHERE t.fell_back) AS fell_back,
       sum(t.calls)::bigint AS calls,
       coalesce(array_agg(DISTINCT t.outcome) FILTER (WHERE t.bad), '{}') AS blamed_outcomes
FROM touched_overloads t
JOIN cases c ON c.id = t.case_id
GROUP BY t.run_id, c.suite, t.operator_id;

CREATE OR REPLACE VIEW counted_overload_variants AS
SELECT v.run_id, c.suite, touched.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
       v.outcome, count(*) AS cases
FROM case_verdicts v
JOIN cases c ON c.id = v.case_id
CROSS JOIN unnest(v.operators) AS touched (operator_id)
WHERE c.suite = 'operators'
GROUP BY v.run_id, c.suite, touched.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
         v.outcome;
