"""The server of MAPF-FrozenLake."""
