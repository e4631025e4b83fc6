ALTER TABLE operator_cases
    ADD CONSTRAINT operator_cases_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators,
    ADD CONSTRAINT operator_cases_case_id_fkey FOREIGN KEY (case_id) REFERENCES cases;
ALTER TABLE case_verdicts
    ADD CONSTRAINT case_verdicts_case_id_fkey FOREIGN KEY (case_id) REFERENCES cases;
ALTER TABLE manifest_entries
    ADD CONSTRAINT manifest_entries_case_id_fkey FOREIGN KEY (case_id) REFERENCES cases;
DROP INDEX operator_cases_of_case;
CREATE INDEX operator_cases_by_case ON operator_cases (case_id, run_id DESC);
CREATE INDEX operator_cases_by_operator ON operator_cases (operator_id, run_id DESC);
CREATE INDEX case_verdicts_history ON case_verdicts (case_id, run_id DESC);
