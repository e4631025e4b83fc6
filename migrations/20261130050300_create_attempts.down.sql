DROP TRIGGER audit_log_is_append_only ON audit_log;
DROP TABLE attempts;
DROP FUNCTION refuse_update;
DROP TABLE signatures;
