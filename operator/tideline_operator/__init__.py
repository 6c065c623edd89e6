"""The operator: observe, plan, act, report. `tideline run` is its embedded form."""
