ALTER TABLE waivers
    ADD COLUMN suite text,
    ADD COLUMN model text,
    ADD COLUMN device_profiles text[] NOT NULL DEFAULT '{}',
    ADD COLUMN device_kinds text[] NOT NULL DEFAULT '{}',
    ADD COLUMN dtypes text[] NOT NULL DEFAULT '{}',
    ADD COLUMN modes text[] NOT NULL DEFAULT '{}',
    ADD COLUMN versions jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(versions) = 'object'),
    ADD COLUMN from_file boolean NOT NULL DEFAULT false,
    ADD COLUMN replaces bigint REFERENCES waivers;
UPDATE waivers SET device_profiles = ARRAY[device_profile] WHERE device_profile IS NOT NULL;
ALTER TABLE waivers DROP COLUMN device_profile;
COMMENT ON COLUMN waivers.suite IS 'Only cases of this suite';
COMMENT ON COLUMN waivers.model IS 'Only model cases of this model, as protocol::waiver reads it';
COMMENT ON COLUMN waivers.device_profiles IS
    'Only on these device profiles; empty here and in the lists that follow: no condition';
COMMENT ON COLUMN waivers.versions IS 'Ranges by the name that the version has in the run';
COMMENT ON COLUMN waivers.from_file IS
    'Made by the file that is kept with the code, which alone changes or ends it';
COMMENT ON COLUMN waivers.replaces IS 'The one that it was before the file changed';
