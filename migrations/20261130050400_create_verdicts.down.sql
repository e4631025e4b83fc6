DROP TABLE operator_cases;
DROP TABLE operators;
DROP TABLE run_tallies;
DROP TABLE case_verdicts;
