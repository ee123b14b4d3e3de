package llamaserver

// What tests call.
var (
	Fill   = fill
	Shared = shared
)

const MaxBranches = maxBranches
