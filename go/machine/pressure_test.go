package machine

import (
	"testing"
	"testing/fstest"
	"time"
)

func TestPressure(t *testing.T) {
	files := func(kv ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = &fstest.MapFile{Data: []byte(kv[i+1])}
		}
		return m
	}
	v2 := files(
		"proc/self/cgroup", "0::/a/b\n",
		"proc/self/mountinfo", "36 35 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		"sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 7\nthrottled_usec 2500000\n",
		"sys/fs/cgroup/a/b/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n",
		"proc/pressure/memory", "some total=1\nfull total=1\n",
		"sys/fs/cgroup/a/b/cpu.stat", "nr_throttled 2\nthrottled_usec x\n",
		"proc/stat", "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 40 9 10\n",
	)
	if got, want := readPressure(v2), (Pressure{
		Periods: 10, ThrottledPeriods: 7, Throttled: 2500 * time.Millisecond, Steal: 800 * time.Millisecond,
		MemorySome: 3 * time.Second, MemoryFull: time.Millisecond,
	}); got != want {
		t.Errorf("version 2: %+v, want %+v", got, want)
	}
	v1 := files(
		"proc/self/cgroup", "4:cpu,cpuacct:/a\n",
		"proc/self/mountinfo", "36 35 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
		"cg/cpu/a/cpu.stat", "nr_throttled 3\nthrottled_time 1500\n",
		"proc/pressure/memory", "some avg10=1.00 total=5000\nfull total=x\nfool\n",
	)
	if got, want := readPressure(v1), (Pressure{ThrottledPeriods: 3, Throttled: 1500, MemorySome: 5 * time.Millisecond}); got != want {
		t.Errorf("version 1: %+v, want %+v", got, want)
	}
	if got := readPressure(files()); got != (Pressure{}) {
		t.Errorf("nothing to read: %+v", got)
	}
}
