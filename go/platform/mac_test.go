package platform

import (
	"errors"
	"reflect"
	"testing"
	"unsafe"
)

// answers is a machine's sysctl.
func answers(values map[string]uint64) sysctl {
	return func(name string) (uint64, error) {
		if v, ok := values[name]; ok {
			return v, nil
		}
		return 0, errors.New(name + ": no such file or directory")
	}
}

func TestMacCPUs(t *testing.T) {
	t.Parallel()
	levels := func(n, pCores, pThreads, eCores, eThreads uint64) map[string]uint64 {
		return map[string]uint64{
			"hw.nperflevels": n, "hw.logicalcpu": pThreads + eThreads, "hw.physicalcpu": pCores + eCores,
			"hw.perflevel0.physicalcpu": pCores, "hw.perflevel0.logicalcpu": pThreads,
			"hw.perflevel1.physicalcpu": eCores, "hw.perflevel1.logicalcpu": eThreads,
		}
	}
	cpu := func(id, core, class int) CPU { return CPU{ID: id, Core: core, Class: class, Allowed: true} }
	intel := []CPU{cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 1, 0), cpu(3, 1, 0)}
	for name, c := range map[string]struct {
		values map[string]uint64
		want   []CPU
	}{
		"fast and slow cores":       {levels(2, 2, 2, 1, 1), []CPU{cpu(0, 0, 1), cpu(1, 1, 1), cpu(2, 2, 0)}},
		"fast cores with threads":   {levels(2, 1, 2, 1, 1), []CPU{cpu(0, 0, 1), cpu(1, 0, 1), cpu(2, 1, 0)}},
		"slow cores that are off":   {levels(2, 2, 2, 0, 0), []CPU{cpu(0, 0, 1), cpu(1, 1, 1)}},
		"one level":                 {levels(1, 2, 4, 0, 0), intel},
		"no levels":                 {map[string]uint64{"hw.logicalcpu": 4, "hw.physicalcpu": 2}, intel},
		"more levels than there be": {levels(1000, 2, 4, 0, 0), intel},
	} {
		got, err := macCPUs(answers(c.values))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for name, values := range map[string]map[string]uint64{
		"nothing":                 {},
		"no cores":                {"hw.logicalcpu": 4},
		"more cores than threads": {"hw.logicalcpu": 2, "hw.physicalcpu": 4},
		"threads without cores":   {"hw.logicalcpu": 2, "hw.physicalcpu": 0},
		"none":                    {"hw.logicalcpu": 0, "hw.physicalcpu": 0},
		"a number without bounds": {"hw.logicalcpu": 1 << 62, "hw.physicalcpu": 1 << 61},
		"a level that is missing": {"hw.nperflevels": 2, "hw.perflevel0.logicalcpu": 2, "hw.perflevel0.physicalcpu": 2},
	} {
		if got, err := macCPUs(answers(values)); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

func TestMacMemory(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	for name, c := range map[string]struct {
		values map[string]uint64
		want   Memories
	}{
		"calm":      {map[string]uint64{"hw.memsize": 100 * gb, "kern.memorystatus_level": 75, "kern.memorystatus_vm_pressure_level": 1}, Memories{Total: 100 * gb, Available: 75 * gb}},
		"warned":    {map[string]uint64{"kern.memorystatus_vm_pressure_level": 2}, Memories{Short: ShortWarning}},
		"critical":  {map[string]uint64{"kern.memorystatus_vm_pressure_level": 4}, Memories{Short: ShortCritical}},
		"nonsense":  {map[string]uint64{"hw.memsize": gb, "kern.memorystatus_level": 101, "kern.memorystatus_vm_pressure_level": 77}, Memories{Total: gb}},
		"no answer": {nil, Memories{}},
	} {
		if got := macMemory(answers(c.values)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestMacNumber(t *testing.T) {
	t.Parallel()
	for want, b := range map[uint64][]byte{0x04030201: {1, 2, 3, 4}, 0x0807060504030201: {1, 2, 3, 4, 5, 6, 7, 8}} {
		if got, err := macNumber(b); err != nil || got != want {
			t.Errorf("%v: %#x, %v", b, got, err)
		}
	}
	for _, b := range [][]byte{nil, {1}, {1, 2, 3, 4, 5}} {
		if got, err := macNumber(b); err == nil {
			t.Errorf("%v: %d, want an error", b, got)
		}
	}
}

// The offsets are those of macOS's header.
func TestMacUsage(t *testing.T) {
	t.Parallel()
	var u macUsage
	if r, f, n := unsafe.Offsetof(u.Resident), unsafe.Offsetof(u.Footprint), unsafe.Sizeof(u); r != 64 || f != 72 || n != 96 {
		t.Errorf("resident at %d, footprint at %d, %d bytes, want 64, 72, 96", r, f, n)
	}
}
