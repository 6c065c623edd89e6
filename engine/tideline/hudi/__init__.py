"""The wing of Hudi tables: what they are, and every change to them, without Spark."""
