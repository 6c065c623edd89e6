"""The operator: observe, plan, act, report. `tideline run` is its embedded form.

- the Kubernetes API: `kube`
"""
