"""The commands, in modules by what a user does; `aitest_flows.cli` puts them together."""
