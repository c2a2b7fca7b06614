"""The search for rows that are decided differently when nothing but protected columns changes."""
