"""The inventory (`hosts.yaml`) and the names a command takes: hosts, groups, ranges, addresses, `local` and `replay:FOLDER`."""
