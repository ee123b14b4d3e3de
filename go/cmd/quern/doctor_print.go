package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// print writes the diagnosis in human-readable form.
func (d diagnosis) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	section := func(name string) { fmt.Fprintf(t, "%s\n", name) }

	section("machine")
	line("cpu", "%s (%s)", orUnknown(d.CPU.Model), d.CPU.Arch)
	line("cores", "%s, %s, %s, %s", count(d.CPU.Cores, "physical core"), count(d.CPU.Logical, "hyperthread"),
		count(d.CPU.Sockets, "socket"), count(d.CPU.Nodes, "NUMA node"))
	line("affinity", "CPUs %s: %s", machine.Ranges(d.CPU.Affinity), count(d.CPU.Reached, "physical core"))
	line("instruction sets", "%s", d.ISA.Found)
	line("in use", "%s", d.ISA.inUse())
	line("memory", "%s, %s available", size(d.Memory.Total), size(d.Memory.Available))
	line("huge pages", "%s", d.HugePages.words())

	section("limits of control groups")
	if len(d.Quotas) == 0 {
		line("cpu quota", "none")
	}
	for _, q := range d.Quotas {
		line("cpu quota", "%.2f CPUs by %s", q.CPUs, q.File)
	}
	if len(d.Memory.Limits) == 0 {
		line("memory", "none")
	}
	for _, l := range d.Memory.Limits {
		line("memory", "%s by %s, %s used, cache included; %s by other processes without it", mem.FormatBytes(l.Bytes), l.File, mem.FormatBytes(l.Used), mem.FormatBytes(l.Taken))
	}
	for _, l := range d.Memory.Swaps {
		line("swap", "%s by %s: not counted on", mem.FormatBytes(l.Bytes), l.File)
	}

	if m := d.Measured; m != nil {
		section("measured with " + count(d.WillDo.Threads, "thread"))
		line("read bandwidth", "%.1f GB/s", m.Read/1e9)
		line("int8 peak", "%.0f billion multiply-adds/s", m.Int8/1e9)
	}

	section("quern will")
	line("run", "%s: %s", count(d.WillDo.Threads, "thread"), d.WillDo.ThreadReason)
	if d.WillDo.CPUs != nil {
		line("pin them", "to CPUs %s: %s", machine.Ranges(d.WillDo.CPUs), d.WillDo.PinReason)
	} else {
		line("pin them", "no: %s", d.WillDo.PinReason)
	}
	if d.WillDo.HugePages {
		line("use huge pages", "yes, for weights and caches")
	} else {
		line("use huge pages", "no: the kernel gives none; write madvise to /sys/kernel/mm/transparent_hugepage/enabled")
	}
	line("take at most", "%s of memory (%s)", mem.FormatBytes(d.WillDo.Memory), d.WillDo.MemoryReason)
	if d.Model != nil {
		section("with " + visible(d.Model.File))
		d.Model.print(line)
	}
	return t.Flush()
}

func (f isaFacts) inUse() string {
	switch {
	case f.Restricted != "":
		return fmt.Sprintf("%s (%s=%s)", f.Used, isaVariable, f.Restricted)
	case f.Used == f.Found:
		return "all of them"
	}
	return f.Used
}

func (f hugePageFacts) words() string {
	if f.Enabled == "" {
		return "none"
	}
	return fmt.Sprintf("%s of %s, defrag %s", f.Enabled, size(f.Bytes), orUnknown(f.Defrag))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size formats a number of bytes; 0 means unknown.
func size(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return mem.FormatBytes(n)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
