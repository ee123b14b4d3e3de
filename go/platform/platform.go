// Package platform is what the program asks of the operating system beyond Go's own library. Each function has a version for
// Linux, one for macOS and one for Windows, with the same meaning; no other package asks which system it is, or calls it
// directly. Files end in _linux, _darwin and _windows; _unix is what Linux and macOS share.
//
// What a system does not have is an error that says so, or nothing where it would have been advice:
//
//	                       Linux              macOS              Windows
//	large allocations      mmap               mmap               VirtualAlloc; counted at once
//	Move of pages          mremap             no                 no
//	huge pages             madvise            the kernel's       no: for a privilege alone
//	memory of a node       mbind              no                 first touch
//	reads of a file        io_uring, O_DIRECT F_NOCACHE          FILE_FLAG_NO_BUFFERING
//	files without a name   O_TMPFILE          removed at once    removed when closed
//	locks of files         flock              flock              LockFileEx, of a byte past the end
//	threads on CPUs        affinity           no                 group affinity
//	limits of memory       control groups     what is installed  job objects
//	shortage of memory     stalls (PSI)       the kernel's level no
//	threads on fast cores  affinity           a class of QoS     group affinity
//	a port of several      SO_REUSEPORT       SO_REUSEPORT       no
//	sockets handed over    LISTEN_FDS         LISTEN_FDS         no
package platform

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrUnsupported reports that this operating system has nothing of the kind. It wraps errors.ErrUnsupported.
var ErrUnsupported = fmt.Errorf("%s has nothing of the kind: %w", Name, errors.ErrUnsupported)

// Name is the system's, as people write it.
var Name = map[string]string{"linux": "Linux", "darwin": "macOS", "windows": "Windows"}[runtime.GOOS]
