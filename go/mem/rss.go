package mem

import (
	"fmt"

	"github.com/quern-llm/quern/go/platform"
)

// RSS returns the resident set size of this process in bytes, mapped files included; 0 if the kernel does not
// report it.
func RSS() uint64 { return platform.Memory().All }

// Anonymous returns the resident bytes of this process that are not backed by a file: the kernel cannot
// reclaim them without swapping.
func Anonymous() uint64 { return platform.Memory().Anonymous }

// PeakRSS returns the maximum of RSS so far.
func PeakRSS() uint64 { return platform.Memory().Peak }

// FormatBytes formats n for people, in powers of 1000: 512 B, 1.5 MB, 4.9 GB.
func FormatBytes(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		// 999950 would round to 1000.0 kB: the next unit is due.
		if v /= 1000; v < 999.95 {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.1f EB", v/1000)
}
