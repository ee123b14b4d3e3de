package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A process is an entry of /proc.
type process struct {
	pid, parent int
	peak        uint64 // VmHWM: its peak resident memory, in bytes
}

// processes lists all running processes.
func processes() ([]process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		all = append(all, parseStatus(pid, string(b)))
	}
	return all, nil
}

func parseStatus(pid int, status string) process {
	p := process{pid: pid}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch name {
		case "PPid":
			p.parent, _ = strconv.Atoi(fields[0])
		case "VmHWM":
			kib, _ := strconv.ParseUint(fields[0], 10, 54)
			p.peak = kib << 10
		}
	}
	return p
}

// treePeak is the sum of the peaks of a process and its descendants, 0 if there is no
// such process. Shared pages count for each.
func treePeak(all []process, root int) uint64 {
	children := map[int][]process{}
	var sum uint64
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.pid == root {
			sum = p.peak
		}
	}
	var below func(pid int)
	below = func(pid int) {
		for _, p := range children[pid] {
			sum += p.peak
			below(p.pid)
		}
	}
	below(root)
	return sum
}

// watchMemory samples the processes below pid every second until stop is called, which
// returns the maximum.
func watchMemory(pid int) (stop func() uint64, err error) {
	var most uint64
	look := func() error {
		all, err := processes()
		most = max(most, treePeak(all, pid))
		return err
	}
	if err := look(); err != nil {
		return nil, err
	}
	if most == 0 {
		return nil, fmt.Errorf("process %d: no such process, or it has no memory", pid)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				look() // as the first time
			case <-ctx.Done():
				tick.Stop()
				look()
				return
			}
		}
	}()
	return func() uint64 {
		cancel()
		<-done
		return most
	}, nil
}
