-- History is read from the runs of a device, the newest first, and the primary key (run_id, case_id)
-- finds the case in each. An index that begins with the case has its pages written all over with
-- every run that comes in, and one that begins with the operator is the primary key once more.
DROP INDEX case_verdicts_history;
DROP INDEX operator_cases_by_operator;
DROP INDEX operator_cases_by_case;
CREATE INDEX operator_cases_of_case ON operator_cases (run_id, case_id);

-- Cases and operators are never deleted, and these rows are derived from others that refer to them.
-- Every check would lock a row, and write that down, to find out what is known.
ALTER TABLE manifest_entries DROP CONSTRAINT manifest_entries_case_id_fkey;
ALTER TABLE case_verdicts DROP CONSTRAINT case_verdicts_case_id_fkey;
ALTER TABLE operator_cases DROP CONSTRAINT operator_cases_case_id_fkey;
ALTER TABLE operator_cases DROP CONSTRAINT operator_cases_operator_id_fkey;
