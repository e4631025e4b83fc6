DROP TABLE run_overloads;
DROP TABLE run_subjects;
DROP VIEW counted_overloads;
DROP VIEW counted_subjects;
DROP INDEX runs_to_summarise;
ALTER TABLE runs DROP COLUMN changes, DROP COLUMN summarised;
