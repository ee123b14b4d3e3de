package machine

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// counters is two packages, the memory of one, and what is part of them or the same once more.
func counters() fstest.MapFS {
	m := fstest.MapFS{}
	for dir, text := range map[string][3]string{
		"intel-rapl:0":      {"package-0", "1500000", "262143328850"},
		"intel-rapl:0:0":    {"core", "700000", "262143328850"},
		"intel-rapl:0:1":    {"dram", "250000", "65712999613"},
		"intel-rapl:1":      {"package-1", "262143328850", "262143328850"},
		"intel-rapl:2":      {"psys", "9000000", "262143328850"},
		"intel-rapl-mmio:0": {"package-0", "1500000", "262143328850"},
	} {
		for i, name := range []string{"name", "energy_uj", "max_energy_range_uj"} {
			m[powercap+"/"+dir+"/"+name] = &fstest.MapFile{Data: []byte(text[i] + "\n")}
		}
	}
	return m
}

func TestEnergy(t *testing.T) {
	files := counters()
	e, err := newEnergyMeter(files)
	if err != nil {
		t.Fatal(err)
	}
	set := func(dir, uj string) { files[powercap+"/"+dir+"/energy_uj"].Data = []byte(uj + "\n") }
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v J, want %v", what, got, want)
		}
	}
	read := func() Energy {
		t.Helper()
		u, err := e.Read()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	near("at the beginning", read().Sum(), 0)
	set("intel-rapl:0", "2500000")
	set("intel-rapl:0:0", "1700000")
	set("intel-rapl:0:1", "750000")
	set("intel-rapl:1", "500000") // it began again
	set("intel-rapl:2", "19000000")
	set("intel-rapl-mmio:0", "2500000")
	near("packages", read().Package, 1.5)
	near("memory", read().DRAM, 0.5)
	near("both, read again", read().Sum(), 2)
	files[powercap+"/intel-rapl:0/max_energy_range_uj"].Data = nil // known since the beginning
	set("intel-rapl:0", "0")
	near("began again", read().Package, 1.5+262143.328850-2.5)
}

func TestNoEnergy(t *testing.T) {
	broken := func(change func(fstest.MapFS)) fs.FS {
		m := counters()
		change(m)
		return m
	}
	for want, root := range map[string]fs.FS{
		"no counters":    fstest.MapFS{},
		"no package":     fstest.MapFS{powercap + "/a/name": {Data: []byte("psys")}},
		"energy_uj: ":    broken(func(m fstest.MapFS) { delete(m, powercap+"/intel-rapl:1/energy_uj") }),
		"not a number":   broken(func(m fstest.MapFS) { m[powercap+"/intel-rapl:1/energy_uj"].Data = []byte("much") }),
		"by root alone":  failing{counters(), fs.ErrPermission},
		"uj: all broken": failing{counters(), errors.New("all broken")},
		"/sys/class/pow": fstest.MapFS{},
	} {
		if _, err := newEnergyMeter(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// failing has counters that cannot be read: nobody may since Linux 5.10 but root, or for another reason.
type failing struct {
	fstest.MapFS
	err error
}

func (f failing) ReadFile(name string) ([]byte, error) {
	if !strings.HasSuffix(name, "/energy_uj") {
		return f.MapFS.ReadFile(name)
	}
	if f.err == fs.ErrPermission {
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.err}
	}
	return nil, f.err
}
