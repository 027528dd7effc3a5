"""What all experiments share: rows, runs, records, statistics, and the report that is made of them."""
