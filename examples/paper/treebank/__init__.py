"""Trees: read, linearised, repaired, scored by EVALB's rules, drawn."""
