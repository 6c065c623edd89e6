"""What the operator's tests share."""
