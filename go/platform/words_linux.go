package platform

// What users are told, in words of the system.
const (
	Limiters    = "control groups" // what limits the memory and the time of processes
	NoHugePages = "the kernel gives none; write madvise to /sys/kernel/mm/transparent_hugepage/enabled"
)
