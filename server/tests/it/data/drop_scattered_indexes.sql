UPDATE operator_cases SET fell_back = true;
