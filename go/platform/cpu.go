package platform

// Hardware is a machine as the operating system describes it by calls.
type Hardware struct {
	Model string // of the processor; empty if unknown
	CPUs  []CPU  // in order of ID
	Pins  bool   // threads can be kept on CPUs
	Memories
}

// A CPU is a logical processor.
type CPU struct {
	ID      int // on Windows 64 times the group, and the number in it
	Core    int // the same for the hyperthreads of one core
	Package int
	Node    int
	Class   int // of speed: a larger one is of faster cores
	Allowed bool
}

// Memories are what a machine has, in bytes; 0 is unknown.
type Memories struct {
	Total, Available, Own, Swap uint64
	Limits                      []MemoryLimit
	CPUs                        float64 // time that the process may use, as a number of CPUs; 0: all
	Short                       Short
}

// Short is what the system itself says of how short memory is, where it does.
type Short int

const (
	ShortNot      Short = iota // or it does not say
	ShortWarning               // programs are asked to give back what they can do without
	ShortCritical              // it is about to end programs
)

// A MemoryLimit is a limit of this process.
type MemoryLimit struct {
	Bytes, Used uint64
	Kind        string
}
