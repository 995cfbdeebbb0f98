"""Parts of a join, each against what it is bound by: page scans, the multi-map, MESHJOIN's rate and resident memory."""
