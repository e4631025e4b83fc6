DROP TABLE gate_evaluations;
ALTER TABLE case_verdicts DROP CONSTRAINT case_verdicts_waiver;
DROP TABLE waivers;
