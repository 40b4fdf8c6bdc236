"""Plans: a reactor's steps as frozen data, their checks and their pictures."""
