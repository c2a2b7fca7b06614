"""Models that stand in for the black box: decision trees."""
