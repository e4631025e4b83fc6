CREATE OR REPLACE VIEW counted_overloads AS
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
CREATE OR REPLACE VIEW counted_overload_variants AS
SELECT t.run_id, c.suite, t.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
       v.outcome, count(*) AS cases
FROM operator_cases t
JOIN cases c ON c.id = t.case_id
JOIN case_verdicts v ON v.run_id = t.run_id AND v.case_id = t.case_id
WHERE c.suite = 'operators'
GROUP BY t.run_id, c.suite, t.operator_id, c.dtype, c.mode, c.direction, c.layout, v.verdict,
         v.outcome;
DROP VIEW touched_overloads;
CREATE INDEX operator_cases_of_case ON operator_cases (run_id, case_id);
ALTER TABLE case_verdicts DROP COLUMN operators;
DROP TRIGGER runs_take_what_was_derived ON runs;
DROP FUNCTION delete_what_was_derived();
ALTER TABLE operator_cases
    ADD CONSTRAINT operator_cases_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs
        ON DELETE CASCADE;
ALTER TABLE case_verdicts
    ADD CONSTRAINT case_verdicts_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs
        ON DELETE CASCADE,
    ADD CONSTRAINT case_verdicts_baseline_run_id_fkey FOREIGN KEY (baseline_run_id) REFERENCES runs
        ON DELETE SET NULL,
    ADD CONSTRAINT case_verdicts_signature_fkey FOREIGN KEY (signature) REFERENCES signatures;
ALTER TABLE manifest_entries
    ADD CONSTRAINT manifest_entries_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs
        ON DELETE CASCADE;
