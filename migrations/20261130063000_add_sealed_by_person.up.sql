ALTER TABLE runs DROP CONSTRAINT runs_sealed_by_words;
ALTER TABLE runs ADD CONSTRAINT runs_sealed_by_words CHECK (
    sealed_by IN ('runner', 'silence', 'person')
);
COMMENT ON COLUMN runs.sealed_by IS
    '`silence`: no result came for the stated time, so the server closed the run; a late seal by the runner replaces it. `person`: it was withdrawn before it was sealed';
