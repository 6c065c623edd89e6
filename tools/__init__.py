"""What writes pages of docs/ and CustomResourceDefinitions from the code; no part of the wheel."""
