DROP TABLE attempt_artifacts;
DROP TABLE artifacts;
