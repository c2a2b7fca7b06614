"""The services of a team's installation as processes on this machine: `python -m infra.local FOLDER`."""
