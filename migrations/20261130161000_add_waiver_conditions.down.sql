-- What cannot be said without its conditions ends, because without them it would forgive more.
UPDATE waivers SET revoked_at = now()
WHERE revoked_at IS NULL
  AND (suite IS NOT NULL OR model IS NOT NULL OR cardinality(device_profiles) > 1
       OR device_kinds <> '{}' OR dtypes <> '{}' OR modes <> '{}' OR versions <> '{}');
ALTER TABLE waivers ADD COLUMN device_profile text;
COMMENT ON COLUMN waivers.device_profile IS 'Null: on every device profile';
UPDATE waivers SET device_profile = device_profiles[1] WHERE device_profiles <> '{}';
ALTER TABLE waivers
    DROP COLUMN suite,
    DROP COLUMN model,
    DROP COLUMN device_profiles,
    DROP COLUMN device_kinds,
    DROP COLUMN dtypes,
    DROP COLUMN modes,
    DROP COLUMN versions,
    DROP COLUMN from_file,
    DROP COLUMN replaces;
