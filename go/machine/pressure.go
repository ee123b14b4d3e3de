package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Pressure is the CPU time that this process's machine did not get. It only grows.
type Pressure struct {
	ThrottledPeriods uint64        // of the quota's, in which it ran out
	Throttled        time.Duration // time that threads were held for it, summed
	Steal            time.Duration // that the host gave to others, summed over CPUs
}

// ReadPressure reads it from the control groups, the most of any level, and from
// /proc/stat. What cannot be read is 0.
func ReadPressure() Pressure { return readPressure(os.DirFS("/")) }

func readPressure(root fs.FS) (p Pressure) {
	t := tree{root}
	for _, g := range t.groups() {
		if !g.has("cpu") {
			continue
		}
		for _, dir := range g.dirs {
			for line := range strings.Lines(t.text(path.Join(dir, "cpu.stat"))) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				n, err := strconv.ParseUint(value, 10, 63)
				if err != nil {
					continue
				}
				switch name {
				case "nr_throttled":
					p.ThrottledPeriods = max(p.ThrottledPeriods, n)
				case "throttled_usec": // version 2
					p.Throttled = max(p.Throttled, time.Duration(n)*time.Microsecond)
				case "throttled_time": // version 1
					p.Throttled = max(p.Throttled, time.Duration(n))
				}
			}
		}
	}
	for line := range strings.Lines(t.text("proc/stat")) {
		// cpu user nice system idle iowait irq softirq steal ..., in ticks of 10 ms
		if f := strings.Fields(line); len(f) > 8 && f[0] == "cpu" {
			if n, err := strconv.ParseUint(f[8], 10, 40); err == nil {
				p.Steal = time.Duration(n) * 10 * time.Millisecond
			}
			break
		}
	}
	return p
}
