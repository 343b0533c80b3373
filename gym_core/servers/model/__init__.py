"""The model server: a proxy that gives each session a key, keeps every call, and ends an endpoint's faults itself."""
