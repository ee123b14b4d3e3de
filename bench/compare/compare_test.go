package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/plot"

	"github.com/quern-llm/quern/bench/internal/page"
)

// TestMain lets this binary stand in for all engines: QUERN_COMPARE_TEST makes
// it answer with that file instead of testing.
func TestMain(m *testing.M) {
	if dir := os.Getenv("QUERN_COMPARE_TEST"); dir != "" {
		name := "peer.json"
		switch {
		case slices.Contains(os.Args, "-broken"):
			fmt.Fprintln(os.Stderr, "unsupported type")
			os.Exit(1)
		case slices.Contains(os.Args, "--kernels"):
			name = "kernels.json"
		case len(os.Args) > 1 && (os.Args[1] == "bench" || os.Args[1] == "version"):
			name = os.Args[1] + ".json"
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write(b)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParseTests(t *testing.T) {
	got, err := parseTests("pp512, pp8,tg128,tg16@d4096")
	want := []test{{prompt: 512}, {prompt: 8}, {gen: 128}, {gen: 16, depth: 4096}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"512", "pp", "pp0", "pp-4", "pptg4", "tgpp4", "tg8@d0", "tg8@", "pp4,pp4", "pp4,", "xx4"} {
		if got, err := parseTests(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
}

func TestParseCurve(t *testing.T) {
	for in, want := range map[string]string{
		"1-4,16": "1-4,16", "8,2-3": "1-3,8", "512": "1,512", "1-32,48,64,96,128,256,512": "1-32,48,64,96,128,256,512", "": "",
	} {
		got, err := parseCurve(in)
		if err != nil || promptList(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, promptList(got), err, want)
		}
	}
	for _, bad := range []string{",", "0", "-1", "4-", "4-2", "x", "1-1000000", "1,,2", "1.5", "1-1024,2000"} {
		if got, err := parseCurve(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
}

func TestLaunches(t *testing.T) {
	tests, err := parseTests("pp512,pp8,tg128,tg16@d4096")
	if err != nil {
		t.Fatal(err)
	}
	curve, err := parseCurve("1-8")
	if err != nil {
		t.Fatal(err)
	}
	c := &config{threads: 2, reps: 3, shared: []string{"-ctk", "q8_0"}}
	var got []string
	for _, l := range launches(union(tests, curve)) {
		got = append(got, strings.Join(l.args("m.gguf", c), " "))
	}
	want := []string{
		"-m m.gguf -p 512,8,1,2,3,4,5 -n 128 -r 3 -o json -t 2 -ctk q8_0",
		"-m m.gguf -p 0 -n 16 -r 3 -o json -d 4096 -t 2 -ctk q8_0",
		"-m m.gguf -p 6,7 -n 0 -r 3 -o json -t 2 -ctk q8_0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Records of ours, of llama-bench and of a llama-bench that leaves fields out.
func TestParseRecords(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     record
		speed    float64
	}{
		{
			"ours",
			`[{"build_commit": "abc", "n_threads": 2, "n_prompt": 8, "n_gen": 0, "n_depth": 0, "avg_ns": 5, "avg_ts": 30.0,
			   "samples_ns": [1], "samples_ts": [10, 50, 30.5], "read_gbps": 12.5, "int8_gmacs": 300, "roof_ts": 61, "roof_fraction": 0.5}]`,
			record{BuildCommit: "abc", Threads: 2, Prompt: 8, AvgTS: 30, SamplesTS: []float64{10, 50, 30.5}, ReadGBps: 12.5, Int8GMACs: 300, RoofTS: 61},
			30.5,
		},
		{
			"llama-bench",
			`[ { "build_commit": "8cf427ff", "build_number": 5163, "flash_attn": -1, "tensor_split": "0.00", "n_threads": 8,
			     "n_prompt": 0, "n_gen": 128, "n_depth": 512, "avg_ts": 131.5, "samples_ns": [ 970000000, 980000000 ], "samples_ts": [ 131, 132 ] } ]`,
			record{BuildCommit: "8cf427ff", Threads: 8, Gen: 128, Depth: 512, AvgTS: 131.5, SamplesTS: []float64{131, 132}},
			131.5,
		},
		{
			"without samples",
			`[{"n_prompt": 4, "n_gen": 0, "flash_attn": "auto", "avg_ts": 7.25}]`,
			record{Prompt: 4, AvgTS: 7.25},
			7.25,
		},
	} {
		got, err := parseRecords([]byte(tt.in))
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
			t.Errorf("%s: got %+v, %v; want %+v", tt.name, got, err, tt.want)
			continue
		}
		if v := got[0].speed(); v != tt.speed {
			t.Errorf("%s: speed %g, want %g", tt.name, v, tt.speed)
		}
	}
	if _, err := parseRecords([]byte("| model | t/s |")); err == nil || !strings.Contains(err.Error(), "| model") {
		t.Errorf("a Markdown table: %v", err)
	}
}

func TestOrder(t *testing.T) {
	records := []record{{Gen: 128, AvgTS: 5}, {Prompt: 8, AvgTS: 9}}
	got, err := order(records, []test{{prompt: 8}, {gen: 128}})
	if err != nil || got[0].Prompt != 8 || got[1].Gen != 128 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := order(records, []test{{prompt: 4}}); err == nil || !strings.Contains(err.Error(), "pp4") {
		t.Errorf("a test without a result: %v", err)
	}
	if _, err := order([]record{{Prompt: 4}}, []test{{prompt: 4}}); err == nil {
		t.Error("a speed of 0 is taken")
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{7, 1, 2}, 2}} {
		before := slices.Clone(tt.in)
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %g, want %g", tt.in, got, tt.want)
		}
		if !slices.Equal(before, tt.in) {
			t.Errorf("median changed %v to %v", before, tt.in)
		}
	}
}

// rounds makes what two engines measured of a test: speeds of ours and of the
// peer.
func rounds(x test, speeds ...[2]float64) []turn {
	var out []turn
	for _, s := range speeds {
		out = append(out, turn{"ours": {x: {AvgTS: s[0], RoofTS: 60}}, "peer": {x: {AvgTS: s[1]}}})
	}
	return out
}

// A ratio is of a round: a machine that slows down for a while, for both,
// changes none.
func TestRatios(t *testing.T) {
	x := test{gen: 4}
	tab := table{engines: []engine{{name: "ours"}, {name: "peer"}}, rounds: rounds(x, [2]float64{30, 15}, [2]float64{3, 2}, [2]float64{40, 10})}
	if ours, peer := tab.speed(tab.engines[0], x), tab.speed(tab.engines[1], x); ours != 30 || peer != 10 {
		t.Errorf("speeds %g and %g, want 30 and 10", ours, peer)
	}
	if got := tab.ratios(tab.engines[1], x); !slices.Equal(got, []float64{2, 1.5, 4}) {
		t.Errorf("ratios %v", got)
	}
	if most, fraction := tab.roof(x); most != 60 || fraction != 0.5 {
		t.Errorf("roof %g, %g of it; want 60 and 0.5", most, fraction)
	}
}

// What a pass costs is its time over that of one token: 8 tokens at the speed of
// one take eight times as long.
func TestCost(t *testing.T) {
	one, eight := test{prompt: 1}, test{prompt: 8}
	e := engine{name: "ours"}
	tab := table{engines: []engine{e}}
	for _, s := range [][2]float64{{10, 10}, {10, 40}, {5, 40}} {
		tab.rounds = append(tab.rounds, turn{"ours": {one: {AvgTS: s[0]}, eight: {AvgTS: s[1]}}})
	}
	if got := tab.cost(e, eight); got != 2 {
		t.Errorf("costs %g, want the median of 8, 2 and 1", got)
	}
	if got := tab.cost(e, one); got != 1 {
		t.Errorf("one token costs %g", got)
	}
}

// A result from a machine that others used says so.
func TestBusy(t *testing.T) {
	x := test{gen: 4}
	r := report{
		config: &config{ours: engine{name: "ours"}, tests: []test{x}, threads: 2},
		tables: []table{{engines: []engine{{name: "ours"}}, rounds: rounds(x, [2]float64{1, 1})}},
	}
	for load, want := range map[float64]bool{3.5: true, 0.1: false} {
		r.facts.machine.Load = load
		var text strings.Builder
		r.write(&text, time.Now(), "x")
		if got := strings.Contains(text.String(), "other programs were running"); got != want {
			t.Errorf("load %g: warned %v, want %v", load, got, want)
		}
	}
}

// The thread that keeps a CPU busy does, and ends.
func TestKeepBusy(t *testing.T) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano())
	}
	stop, err := keepBusy(1)
	if err != nil {
		t.Fatal(err)
	}
	before := used()
	for deadline := time.Now().Add(time.Minute); used()-before < 20*time.Millisecond; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no CPU is kept busy")
		}
	}
	stop()
}

// A whole comparison, with this binary as all engines.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("version.json", `{"commit": "abc", "kernels": "avx2"}`)
	put("kernels.json", "| kernel | q4_k |\n")
	put("bench.json", `[{"n_threads": 2, "n_prompt": 8, "avg_ts": 90, "roof_ts": 100, "read_gbps": 10, "int8_gmacs": 99},
		{"n_threads": 2, "n_prompt": 1, "avg_ts": 20, "roof_ts": 40, "read_gbps": 10, "int8_gmacs": 99},
		{"n_threads": 2, "n_gen": 4, "avg_ts": 8, "roof_ts": 16, "read_gbps": 10, "int8_gmacs": 99}]`)
	put("peer.json", `[{"n_threads": 2, "n_gen": 4, "avg_ts": 10, "build_commit": "v9"}, {"n_threads": 2, "n_prompt": 8, "avg_ts": 45, "build_commit": "v9"},
		{"n_threads": 2, "n_prompt": 1, "avg_ts": 15, "build_commit": "v9"}]`)
	model := put("m:Q4.gguf", "")
	t.Setenv("QUERN_COMPARE_TEST", dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name            string
		args            []string
		want, forbidden []string
		plot            []string
	}{
		{
			"with peers", []string{"-peer", "a=" + self, "-peer", "b=" + self + " -rtr 1", "-models", model, "-tests", "pp8,tg4", "-curve", "8", "-ctk", "q8_0", "-fa", "1", "-neighbour"},
			[]string{
				"# speed, ", "- a: v9", "- b: v9", "instruction sets in use: avx2", "- threads: 2 of each", "measured: 10.0 GB/s",
				"## m:Q4.gguf", "| pp8 | 90.00 | 45.00 | **2.00** | 2.00 to 2.00 | 45.00 | **2.00** | 2.00 to 2.00 | 100.00 | 90 % |",
				"| tg4 | 8.00 | 10.00 | **0.80** | 0.80 to 0.80 | 10.00 | **0.80** | 0.80 to 0.80 | 16.00 | 50 % |", "Slower than a: tg4 (0.80).",
				"### Beside a busy thread", "| pp8 | 90.00 | 90.00 | 100 % | 45.00 | 45.00 | 100 % | 45.00 | 45.00 | 100 % |",
				"| n | ours t/s | cost(n)/cost(1) | a t/s | its cost(n)/cost(1) | ours / a | b t/s |",
				"| 1 | 20.00 | 1.00 | 15.00 | 1.00 | **1.33** | 15.00 | 1.00 | **1.33** | 40.00 | 50 % |",
				"| 8 | 90.00 | 1.78 | 45.00 | 2.67 | **2.00** | 45.00 | 2.67 | **2.00** | 100.00 | 90 % |", "Nothing here is slower than b.",
				"make bench BENCH_ARGS='-models m:Q4.gguf -peer \"a=/path/to/" + filepath.Base(self) + "\" -peer \"b=/path/to/" + filepath.Base(self) + " -rtr 1\" -tests pp8,tg4 -curve 1,8 -neighbour -ctk q8_0 -fa 1 -threads 2 -rounds 2",
				"\n    " + filepath.Base(self) + " -rtr 1 -m MODEL -p 8,1 -n 4 -r 3 -o json -t 2 -ctk q8_0 -fa 1\n",
				"load average before: ", "-speed-m-Q4.svg)", "## Kernels alone\n\n| kernel | q4_k |\n",
			},
			[]string{dir},
			[]string{">quern<", ">a<", ">b<", ">roofline<", ">tokens in a pass (n)<", ">tokens/s<", ">m:Q4.gguf, 2 threads"},
		},
		{
			"a peer that fails", []string{"-peer", "a=" + self + " -broken", "-peer", "b=" + self, "-models", model, "-tests", "pp8,tg4", "-curve", "", "-kernels=false"},
			[]string{"Without a, which failed on this model.", "- a: build unknown", "- b: v9", "| pp8 | 90.00 | 45.00 | **2.00** | 2.00 to 2.00 | 100.00 | 90 % |"},
			[]string{"ours / a"},
			nil,
		},
		{
			"alone", []string{"-models", model, "-tests", "pp8,tg4", "-curve", "", "-kernels=false"},
			[]string{"no peer was given", "| tg4 | 8.00 | 16.00 | 50 % |"},
			[]string{dir, "llama-bench", "lower than", "cost(n)", "svg", "Kernels alone"},
			nil,
		},
		{
			"kernels only", []string{"-tests", "", "-curve", "", "-threads", "3"},
			[]string{"Quern's kernels alone", "| kernel | q4_k |", "- threads: 3", "bin/quern bench --kernels -r 3 -t 3\n"},
			[]string{dir, "MODEL", "-models", "svg"},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results := filepath.Join(t.TempDir(), "results")
			c, err := parseFlags(append([]string{"-ours", self, "-rounds", "2", "-results", results, "-topic", "speed"}, tt.args...), func(string) string { return "" }, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			path, err := compare(context.Background(), c, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Now().Format(time.DateOnly) + "-speed.md"; filepath.Base(path) != want {
				t.Errorf("written to %s, want %s", path, want)
			}
			stem := strings.TrimSuffix(path, ".md")
			contains(t, path, tt.want, tt.forbidden)
			if tt.plot != nil {
				contains(t, stem+"-m-Q4.svg", tt.plot, []string{dir})
			} else if files, _ := filepath.Glob(filepath.Join(results, "*.svg")); files != nil {
				t.Errorf("plots %v", files)
			}
			again, err := compare(context.Background(), c, io.Discard, io.Discard)
			if err != nil || again != stem+"-2.md" {
				t.Errorf("the second of the day is %s, %v", again, err)
			}
		})
	}
}

// contains checks what is in a file and what is not.
func contains(t *testing.T, path string, want, forbidden []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range want {
		if !strings.Contains(string(b), s) {
			t.Errorf("no %q in:\n%s", s, b)
		}
	}
	for _, s := range forbidden {
		if strings.Contains(string(b), s) {
			t.Errorf("%q in:\n%s", s, b)
		}
	}
}

func TestTicks(t *testing.T) {
	labels := func(ticks []plot.Tick) string {
		var s []string
		for _, tick := range ticks {
			s = append(s, tick.Label)
		}
		return strings.Join(s, " ")
	}
	if got := labels(powersOfTwo(1, 512)); got != "1 2 4 8 16 32 64 128 256 512" {
		t.Errorf("powers of two: %s", got)
	}
	if got := labels(page.OneTwoFive(0.4, 30)); got != "0.5 1 2 5 10 20" {
		t.Errorf("ones, twos and fives: %s", got)
	}
}

func TestParseFlags(t *testing.T) {
	env := map[string]string{"LLAMA_BENCH": "/x/llama-bench", "MODELS": "a.gguf b.gguf"}
	getenv := func(k string) string { return env[k] }
	c, err := parseFlags(nil, getenv, io.Discard)
	if err != nil || len(c.peers) != 1 || c.peers[0].name != "peer" || !slices.Equal(c.peers[0].argv, []string{"/x/llama-bench"}) ||
		!slices.Equal(c.models, []string{"a.gguf", "b.gguf"}) || c.rounds != 3 || len(c.curve) != 38 || !c.kernels {
		t.Errorf("got %+v, %v", c, err)
	}
	c, err = parseFlags([]string{"-peer", "ik=/y/llama-bench", "-peer", "ik-rtr=/y/llama-bench -rtr 1", "-fa", "1", "-ctv", "q8_0"}, getenv, io.Discard)
	if want := []engine{{"ik", []string{"/y/llama-bench"}}, {"ik-rtr", []string{"/y/llama-bench", "-rtr", "1"}}}; err != nil || !reflect.DeepEqual(c.peers, want) {
		t.Errorf("peers %+v, %v", c.peers, err)
	}
	if want := []string{"-fa", "1", "-ctv", "q8_0"}; !slices.Equal(c.shared, want) {
		t.Errorf("flags for all: %q", c.shared)
	}
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-repetitions", "0"}, {"-threads", "-1"}, {"-models", ","}, {"-tests", "pp"}, {"-topic", "a/b"}, {"x"},
		{"-curve", "0"}, {"-peer", ""}, {"-peer", "x="}, {"-peer", "ours=/x"}, {"-peer", "/x", "-peer", "/y"},
		{"-tests", "", "-curve", "", "-kernels=false"}, {"-tests", "", "-neighbour"},
	} {
		if _, err := parseFlags(args, func(string) string { return "" }, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestModelNames(t *testing.T) {
	got := modelNames([]string{"/m/q4/shape.gguf", "/m/q8/shape.gguf", "/m/other.gguf", "llama-3.2-1b:Q4_K_M"})
	if want := []string{"q4/shape.gguf", "q8/shape.gguf", "other.gguf", "llama-3.2-1b:Q4_K_M"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestModelFile(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	path, err := modelFile(context.Background(), "tiny:q4_k_m", cache, io.Discard)
	if err != nil || path != filepath.Join(cache, "tiny-Q4_K_M.gguf") {
		t.Fatalf("got %s, %v", path, err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := modelFile(context.Background(), "tiny:q4_k_m", cache, io.Discard); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("made twice: %v", err)
	}
	if path, err := modelFile(context.Background(), "tiny/2:q4_k_m", cache, io.Discard); err != nil || filepath.Dir(path) != cache {
		t.Errorf("with fewer layers: %s, %v", path, err)
	}
	for model, want := range map[string]string{"no.gguf": "no.gguf", "huge:Q4_K_M": "known are"} {
		if _, err := modelFile(context.Background(), model, cache, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
	}
}
