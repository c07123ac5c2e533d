"""What papers report of depth beside the optimum: crossings, required depth, matched loss."""
