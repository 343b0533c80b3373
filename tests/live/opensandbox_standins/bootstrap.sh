#!/bin/sh
# What the server makes the entry point of each sandbox: the daemon beside what the sandbox is to run.
/opt/opensandbox/execd &
exec "$@"
