package machine

import "github.com/quern-llm/quern/go/platform"

// A Thread is a thread of the operating system whose affinity may be changed from any other.
type Thread = platform.Thread

// ThisThread returns the calling thread. The caller's goroutine is locked to it for as long as it is used.
func ThisThread() *Thread { return platform.ThisThread() }
