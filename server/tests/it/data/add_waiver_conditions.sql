INSERT INTO waivers (case_pattern, model, device_profiles, device_kinds, dtypes, versions, outcomes,
                     reason, owner, issue, author, approver, expires_on, from_file, replaces)
SELECT 'tier1/*', 'timm:*', '{tpu,tpu-sim}', '{TPU v6*}', '{float32}', '{"torch": "<2.16"}',
       '{crash}', 'crashes before 2.16', 'o', 'https://example.com/2', 'ada', 'bob',
       current_date + 30, true, (SELECT min(id) FROM waivers);
