UPDATE runs SET sealed_by = 'silence' WHERE sealed_by = 'person';
ALTER TABLE runs DROP CONSTRAINT runs_sealed_by_words;
ALTER TABLE runs ADD CONSTRAINT runs_sealed_by_words CHECK (sealed_by IN ('runner', 'silence'));
