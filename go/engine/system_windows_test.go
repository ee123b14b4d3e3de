package engine

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// processTime returns the CPU time of this process.
func processTime(t *testing.T) time.Duration {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		t.Fatal(err)
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}

// makePipe skips: files of a folder are no pipes on Windows.
func makePipe(t *testing.T, _ string) error {
	t.Skip("pipes are in no folder of files")
	return nil
}

// threadCPUs returns the CPUs that the calling thread may run on, of its processor group.
func threadCPUs(t *testing.T) (ids []int) {
	var affinity struct {
		mask  uintptr
		group uint16
		_     [3]uint16
	}
	get := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetThreadGroupAffinity")
	if ok, _, err := get.Call(uintptr(windows.CurrentThread()), uintptr(unsafe.Pointer(&affinity))); ok == 0 {
		t.Fatal(err)
	}
	for bit := range 64 {
		if affinity.mask>>bit&1 != 0 {
			ids = append(ids, 64*int(affinity.group)+bit)
		}
	}
	return ids
}
