"""Files of stores: objects that are read by many requests at once."""
