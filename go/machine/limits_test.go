package machine

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	const (
		meminfo = `proc/meminfo: MemTotal:       16000 kB\nMemFree: 5 kB\nMemAvailable:   8000 kB` + "\n"
		kB      = 1024
		none    = "9223372036854771712" // how version 1 writes it
	)
	for _, tt := range []struct {
		name   string
		root   fstest.MapFS
		want   uint64
		reason string
	}{
		{"no group", files(smt(1), meminfo), 8000 * kB, "memory available"},
		{"old kernel", files(smt(1), `proc/meminfo: MemTotal: 16000 kB`), 16000 * kB, "memory installed"},
		{"nothing known", files(smt(1)), math.MaxUint64, "no limit known"},
		{"meminfo of garbage", files(smt(1), `proc/meminfo: MemTotal: lots\nMemAvailable: -4 kB\nMemAvailable: 18446744073709551615 kB`),
			math.MaxUint64, "no limit known"},
		{"v2 max", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/memory.max: 4096000\nsys/fs/cgroup/app/memory.high: max"), 4096000, "cgroup memory.max"},
		{"v2 high below max", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/memory.max: 4096000\nsys/fs/cgroup/app/memory.high: 3072000"), 3072000, "cgroup memory.high"},
		{"v2 max on the grandparent", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/a/b/c`,
			"sys/fs/cgroup/a/b/c/memory.max: max\nsys/fs/cgroup/a/b/memory.max: 5000000\nsys/fs/cgroup/a/memory.max: 2048000"), 2048000, "cgroup memory.max"},
		{"v2 max above what is available", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/memory.max: 999999999"), 8000 * kB, "memory available"},
		{"v2 garbage", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/memory.max: -1\nsys/fs/cgroup/app/memory.high: 0"), 8000 * kB, "memory available"},
		{"v2 with others in the group", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`, `proc/self/status: RssAnon: 100 kB\nRssFile: 900 kB`,
			"sys/fs/cgroup/app/memory.max: 4096000", `sys/fs/cgroup/app/memory.stat: anon 300000\nfile 3000000\nshmem 2400`), 4096000 - (302400 - 100*kB), "cgroup memory.max"},
		{"v2 where others have all", files(smt(1), meminfo, v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/memory.max: 4096000", `sys/fs/cgroup/app/memory.stat: anon 5000000`), 1, "cgroup memory.max"},
		{"what the process has is its own", files(smt(1), meminfo, `proc/self/status: RssAnon: 100 kB\nRssFile: 900 kB\nRssShmem: 20 kB`), 8120 * kB, "memory available"},
		{"v1 with others in the group", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/app`, `proc/self/status: RssAnon: 100 kB`,
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes: 3000000",
			`sys/fs/cgroup/memory/app/memory.stat: cache 999999\nrss 7\ntotal_cache 999999\ntotal_rss 500000`), 3000000 - (500000 - 100*kB), "cgroup memory.limit_in_bytes"},
		{"v1 limit", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/app`,
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes: 3000000"), 3000000, "cgroup memory.limit_in_bytes"},
		{"v1 none", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/app`,
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes: "+none,
			`sys/fs/cgroup/memory/app/memory.stat: cache 1\nhierarchical_memory_limit `+none), 8000 * kB, "memory available"},
		{"v1 limit on the parent", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/a/b`,
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes: "+none, "sys/fs/cgroup/memory/a/memory.limit_in_bytes: 1000000"),
			1000000, "cgroup memory.limit_in_bytes"},
		{"v1 parent that does not count its children", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/a/b`,
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes: 2000000",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes: 1000000\nsys/fs/cgroup/memory/a/memory.use_hierarchy: 0"),
			2000000, "cgroup memory.limit_in_bytes"},
		{"v1 limit of a parent out of sight", files(smt(1), meminfo, v1, `proc/self/cgroup: 4:memory:/`,
			`sys/fs/cgroup/memory/memory.stat: cache 1\nhierarchical_memory_limit 1500000\nrss 2`), 1500000, "cgroup hierarchical_memory_limit"},
		{"hybrid: limits in v1, none in v2", files(smt(1), meminfo, hybrid, `proc/self/cgroup: 4:memory:/x/y\n1:cpu:/\n0::/`,
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes: 700000"), 700000, "cgroup memory.limit_in_bytes"},
		{"a limit of another controller's mount is not ours", files(smt(1), meminfo, hybrid, `proc/self/cgroup: 1:cpu:/x`,
			"sys/fs/cgroup/cpu/x/memory.limit_in_bytes: 700000"), 8000 * kB, "memory available"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(tt.root, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, reason := m.MemoryLimit(); got != tt.want || reason != tt.reason {
				t.Errorf("MemoryLimit() = %d, %q, want %d, %q", got, reason, tt.want, tt.reason)
			}
		})
	}
}

func TestMemLimitUsed(t *testing.T) {
	m, err := ReadFS(files(smt(1), v2, `proc/self/cgroup: 0::/app`,
		"sys/fs/cgroup/app/memory.max: 4096000\nsys/fs/cgroup/app/memory.current: 123"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := MemLimit{Bytes: 4096000, Used: 123, Kind: "memory.max", File: "/sys/fs/cgroup/app/memory.max"}
	if len(m.MemLimits) != 1 || m.MemLimits[0] != want {
		t.Errorf("MemLimits = %+v, want %+v", m.MemLimits, want)
	}
}

// Version 1 computes the limit over all parents, which is shown where it is another.
func TestMemLimitOfParents(t *testing.T) {
	for whole, want := range map[string]int{"1000000": 1, "3000000": 1, "900000": 2} {
		m, err := ReadFS(files(smt(1), v1, `proc/self/cgroup: 4:memory:/app`,
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes: 1000000",
			`sys/fs/cgroup/memory/app/memory.stat: cache 1\nhierarchical_memory_limit `+whole), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.MemLimits) != want {
			t.Errorf("%s over all: %+v, want %d", whole, m.MemLimits, want)
		}
	}
}

// Whatever the files hold, there is an answer and it is a sane one.
func FuzzReadFS(f *testing.F) {
	f.Add("processor: 0\ncore id: 1", "0-3,5", "0::/a/b", "30 23 0:26 / /c rw - cgroup2 cgroup2 rw", "150000 100000", "max")
	f.Add("processor: -1", "0-", "4:memory,cpu:/../..", `1 2 3 /.. /\057\400 - cgroup x rw,cpu`, "max", "-1")
	f.Fuzz(func(t *testing.T, cpuinfo, list, cgroup, mountinfo, cpuMax, number string) {
		root := fstest.MapFS{}
		for name, s := range map[string]string{
			"proc/cpuinfo": cpuinfo, "proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, "proc/meminfo": number,
			"sys/devices/system/cpu/online": list, "sys/devices/system/node/online": list, "proc/self/status": "Mems_allowed_list:" + list,
			"sys/devices/system/node/node0/cpulist": list, "sys/devices/system/node/node3/cpulist": cpuMax,
			"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: " + number + " kB", "sys/devices/system/node/node3/meminfo": number,
			"sys/devices/system/node/node0/distance": cpuMax, "sys/devices/system/node/node3/distance": number,
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": list,
			"c/a/cpu.max": cpuMax, "c/cpu.cfs_quota_us": cpuMax, "c/a/memory.max": number, "c/memory.stat": number,
		} {
			root[name] = &fstest.MapFile{Data: []byte(s)}
		}
		m, err := ReadFS(root, nil)
		if err != nil {
			return
		}
		if n := m.Threads(); n < 1 || n > len(m.CPUs) {
			t.Errorf("%d threads on %d CPUs", n, len(m.CPUs))
		}
		if got := len(m.WorkerCPUs(len(m.CPUs))); got != len(m.CPUs) {
			t.Errorf("%d worker CPUs of %d", got, len(m.CPUs))
		}
		if n, _ := m.MemoryLimit(); n == 0 {
			t.Error("a limit of 0 bytes")
		}
		for _, m.NUMA = range []NUMA{NUMAAuto, NUMADistribute} {
			for _, m.Virtual = range []int{0, 3} {
				for _, n := range []int{1, 2, 3, len(m.CPUs), len(m.CPUs) + 1} {
					sane(t, m, n)
				}
			}
		}
	})
}

func TestSwapLimits(t *testing.T) {
	m, err := ReadFS(files(smt(1), v2, `proc/self/cgroup: 0::/app`, `proc/meminfo: SwapTotal: 8 kB`,
		"sys/fs/cgroup/app/memory.swap.max: 0\nsys/fs/cgroup/app/memory.swap.current: 0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := MemLimit{Kind: "memory.swap.max", File: "/sys/fs/cgroup/app/memory.swap.max"}
	if len(m.SwapLimits) != 1 || m.SwapLimits[0] != want || m.SwapTotal != 8*1024 {
		t.Errorf("SwapLimits = %+v, %d bytes in all; want %+v", m.SwapLimits, m.SwapTotal, want)
	}
}

// A container that is resized is seen so, at whichever level.
func TestAgain(t *testing.T) {
	root := files(smt(4), v2, `proc/self/cgroup: 0::/a/b`,
		"sys/fs/cgroup/a/b/cpu.max: max 100000\nsys/fs/cgroup/a/cpu.max: 350000 100000",
		"sys/fs/cgroup/a/b/memory.max: 5000000\nsys/fs/cgroup/a/memory.max: max")
	m, err := ReadFS(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(m *Machine, threads int, bytes uint64) {
		t.Helper()
		if got, _ := m.MemoryLimit(); m.Threads() != threads || got != bytes {
			t.Errorf("%d threads, %d bytes; want %d, %d", m.Threads(), got, threads, bytes)
		}
	}
	check(m, 3, 5000000)
	root["sys/fs/cgroup/a/cpu.max"].Data = []byte("150000 100000")
	root["sys/fs/cgroup/a/memory.max"].Data = []byte("4000000")
	check(m, 3, 5000000)
	check(m.Again(), 1, 4000000)
	root["sys/fs/cgroup/a/cpu.max"].Data = []byte("max 100000")
	root["sys/fs/cgroup/a/memory.max"].Data = []byte("max")
	check(m.Again(), 4, 5000000)
}
