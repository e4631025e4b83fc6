UPDATE runs SET state = 'sealed', completeness = 'void', sealed_by = 'person', sealed_at = now();
