package llamaserver

// What tests call.
var (
	Shared = shared
)

const MaxBranches = maxBranches
