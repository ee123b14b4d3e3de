package platform

// What users are told, in words of the system.
const (
	Limiters    = "job objects" // what limits the memory and the time of processes
	NoHugePages = "Windows has them for a privilege alone, and not on demand"
)
