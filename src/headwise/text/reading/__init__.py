"""Files of text read line by line, record by record or tree by tree, and cleaned."""
