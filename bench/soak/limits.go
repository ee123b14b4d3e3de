package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// limits are those of a control group that the server believes it is in: files over those of the kernel, which only the
// processes of this namespace see. The kernel itself limits nothing.
type limits struct {
	impossible string
	dirs       []groupDir
}

// A groupDir is where a hierarchy is mounted.
type groupDir struct {
	path string
	v2   bool
}

func newLimits() *limits {
	l := &limits{impossible: mayMount()}
	if l.impossible != "" {
		return l
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		l.impossible = err.Error()
		return l
	}
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		options := strings.Split(right[2], ",")
		v2 := right[0] == "cgroup2"
		if !v2 && (right[0] != "cgroup" || !slices.Contains(options, "memory") && !slices.Contains(options, "cpu")) {
			continue
		}
		if err := unix.Mount("tmpfs", left[4], "tmpfs", 0, "size=1m"); err != nil {
			l.impossible = fmt.Sprintf("%s: %v", left[4], err)
			return l
		}
		l.dirs = append(l.dirs, groupDir{left[4], v2})
	}
	if len(l.dirs) == 0 {
		l.impossible = "there are no control groups here"
	}
	return l
}

func (l *limits) write(v2 bool, name, content string) error {
	for _, d := range l.dirs {
		if d.v2 != v2 {
			continue
		}
		if err := os.WriteFile(filepath.Join(d.path, name), []byte(content+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// memory sets the limit of memory; 0 is none.
func (l *limits) memory(n uint64) error {
	one, two := "9223372036854771712", "max"
	if n > 0 {
		one = fmt.Sprint(n)
		two = one
	}
	if err := l.write(false, "memory.limit_in_bytes", one); err != nil {
		return err
	}
	return l.write(true, "memory.max", two)
}

// cpus sets the quota; 0 is none.
func (l *limits) cpus(n int) error {
	const period = 100000
	one, two := "-1", "max 100000"
	if n > 0 {
		one = fmt.Sprint(n * period)
		two = one + " 100000"
	}
	if err := l.write(false, "cpu.cfs_period_us", fmt.Sprint(period)); err != nil {
		return err
	}
	if err := l.write(false, "cpu.cfs_quota_us", one); err != nil {
		return err
	}
	return l.write(true, "cpu.max", two)
}
