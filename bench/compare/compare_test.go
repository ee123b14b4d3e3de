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
)

// TestMain lets this binary stand in for both engines: QUERN_COMPARE_TEST makes
// it answer with that file instead of testing.
func TestMain(m *testing.M) {
	if dir := os.Getenv("QUERN_COMPARE_TEST"); dir != "" {
		name := "peer.json"
		if len(os.Args) > 1 && (os.Args[1] == "bench" || os.Args[1] == "version") {
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
	for _, bad := range []string{"", "512", "pp", "pp0", "pp-4", "pptg4", "tgpp4", "tg8@d0", "tg8@", "pp4,pp4", "pp4,", "xx4"} {
		if got, err := parseTests(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
}

func TestLaunches(t *testing.T) {
	tests, err := parseTests("pp512,pp8,tg128,tg16@d4096")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range launches(tests) {
		got = append(got, strings.Join(l.args("m.gguf", 2, 3), " "))
	}
	want := []string{
		"-m m.gguf -p 512,8 -n 128 -r 3 -o json -t 2",
		"-m m.gguf -p 0 -n 16 -r 3 -o json -d 4096 -t 2",
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

// A ratio is of a round: a machine that slows down for a while, for both,
// changes none.
func TestRow(t *testing.T) {
	var tab table
	for _, s := range [][2]float64{{30, 15}, {3, 2}, {40, 10}} {
		tab.rounds = append(tab.rounds, turn{{{AvgTS: s[0], RoofTS: 60}}, {{AvgTS: s[1]}}})
	}
	got := tab.row(0, true)
	want := row{ours: 30, peer: 10, ratio: 2, least: 1.5, most: 4, roof: 60, ofRoof: 0.5}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A result from a machine that others used says so.
func TestBusy(t *testing.T) {
	r := report{
		config: config{threads: 2},
		facts:  facts{load: 3.5},
		tables: []table{{rounds: []turn{{{{Gen: 4, AvgTS: 1}}, nil}}}},
	}
	for load, want := range map[float64]bool{3.5: true, 0.1: false} {
		r.facts.load = load
		var text strings.Builder
		r.write(&text, time.Now())
		if got := strings.Contains(text.String(), "other programs were running"); got != want {
			t.Errorf("load %g: warned %v, want %v", load, got, want)
		}
	}
}

// A whole comparison, with this binary as both engines.
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
	put("bench.json", `[{"n_threads": 2, "n_prompt": 8, "avg_ts": 90, "roof_ts": 100, "read_gbps": 10, "int8_gmacs": 99},
		{"n_threads": 2, "n_gen": 4, "avg_ts": 8, "roof_ts": 16, "read_gbps": 10, "int8_gmacs": 99}]`)
	put("peer.json", `[{"n_threads": 2, "n_gen": 4, "avg_ts": 10, "build_commit": "v9"}, {"n_threads": 2, "n_prompt": 8, "avg_ts": 45, "build_commit": "v9"}]`)
	model := put("m.gguf", "")
	t.Setenv("QUERN_COMPARE_TEST", dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, peer      string
		want, forbidden []string
	}{
		{
			"with a peer", self,
			[]string{
				"# speed, ", "- peer: v9", "instruction sets in use: avx2", "- threads: 2 of each", "measured: 10.0 GB/s",
				"## m.gguf", "| pp8 | 90.00 | 45.00 | **2.00** | 2.00 to 2.00 | 100.00 | 90 % |",
				"| tg4 | 8.00 | 10.00 | **0.80** | 0.80 to 0.80 | 16.00 | 50 % |", "Slower than the peer: tg4 (0.80).",
				"LLAMA_BENCH=/path/to/llama-bench make bench BENCH_ARGS='-models m.gguf -tests pp8,tg4 -threads 2 -rounds 2",
				"load average before: ",
			},
			[]string{dir},
		},
		{
			"alone", "",
			[]string{"no peer was given", "| tg4 | 8.00 | 16.00 | 50 % |"},
			[]string{dir, "llama-bench", "lower than the peer"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results := filepath.Join(t.TempDir(), "results")
			args := []string{"-ours", self, "-peer", tt.peer, "-models", model, "-tests", "pp8,tg4", "-rounds", "2", "-results", results, "-topic", "speed"}
			c, err := parseFlags(args, func(string) string { return "" }, io.Discard)
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
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range tt.want {
				if !strings.Contains(string(b), s) {
					t.Errorf("no %q in:\n%s", s, b)
				}
			}
			for _, s := range tt.forbidden {
				if strings.Contains(string(b), s) {
					t.Errorf("%q in:\n%s", s, b)
				}
			}
			again, err := compare(context.Background(), c, io.Discard, io.Discard)
			if err != nil || filepath.Base(again) != strings.TrimSuffix(filepath.Base(path), ".md")+"-2.md" {
				t.Errorf("the second of the day is %s, %v", again, err)
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	env := map[string]string{"LLAMA_BENCH": "/x/llama-bench", "MODELS": "a.gguf b.gguf"}
	c, err := parseFlags(nil, func(k string) string { return env[k] }, io.Discard)
	if err != nil || c.peer != "/x/llama-bench" || !slices.Equal(c.models, []string{"a.gguf", "b.gguf"}) || c.rounds != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-repetitions", "0"}, {"-threads", "-1"}, {"-models", ","}, {"-tests", "pp"}, {"-topic", "a/b"}, {"x"},
	} {
		if _, err := parseFlags(args, func(string) string { return "" }, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
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
	for model, want := range map[string]string{"no.gguf": "no.gguf", "huge:Q4_K_M": "known are"} {
		if _, err := modelFile(context.Background(), model, cache, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
	}
}
