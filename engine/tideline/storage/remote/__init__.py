"""What all stores at a server have in common, by way of obstore.

- the store: `store`; its streams: `streams`
- time limits and settings of clients: `client`; what a process may sign requests with: `identity`
- failed requests in our words: `failure`
"""
