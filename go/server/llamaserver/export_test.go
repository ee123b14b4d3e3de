package llamaserver

// What tests call.
const MaxBranches = maxBranches
