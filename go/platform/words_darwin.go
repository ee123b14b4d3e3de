package platform

// What users are told, in words of the system.
const (
	Limiters    = "this process" // what limits the memory and the time of processes
	NoHugePages = "macOS gives them as it sees fit"
)
