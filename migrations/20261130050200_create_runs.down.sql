DROP TABLE manifest_entries;
DROP TABLE runs;
DROP TABLE cases;
