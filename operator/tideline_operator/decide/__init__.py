"""What to do next with a table, from what was seen of it: values in, values out."""
