package main

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func plan(t *testing.T, args ...string) []arrival {
	t.Helper()
	c, err := parseFlags(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readWords(c.text)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(c.plan(w))
}

func times(arrivals []arrival) []time.Duration {
	var at []time.Duration
	for _, a := range arrivals {
		at = append(at, a.at)
	}
	return at
}

func TestArrivals(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		args string
		want []time.Duration
	}{
		{"--rate 2 --arrivals fixed --requests 4", []time.Duration{0, s / 2, s, s * 3 / 2}},
		{"--rate 2 --arrivals fixed --duration 1s", []time.Duration{0, s / 2}},
		{"--rate 2 --arrivals burst:3 --requests 7", []time.Duration{0, 0, 0, s * 3 / 2, s * 3 / 2, s * 3 / 2, 3 * s}},
		{"--rate 1 --arrivals fixed --duration 4s --intruder 1500ms:9", []time.Duration{0, s, s * 3 / 2, 2 * s, 3 * s, 3 * s}},
	} {
		if got := times(plan(t, strings.Fields(tt.args)...)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.args, got, tt.want)
		}
	}

	// Gaps of a Poisson process have a mean and a deviation of 1/rate.
	at := times(plan(t, "--rate", "4", "--requests", "20000", "--prompt-words", "1"))
	sum, squares := 0.0, 0.0
	for i := 1; i < len(at); i++ {
		gap := (at[i] - at[i-1]).Seconds()
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(at) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-0.25) > 0.01 || math.Abs(deviation-0.25) > 0.01 {
		t.Errorf("gaps of %.3f ± %.3f s, want 0.25 ± 0.25", mean, deviation)
	}
}

func TestPlan(t *testing.T) {
	args := []string{"--duration", "200s", "--rate", "10", "--intruder", "7s:300", "--cancel-share", "0.2", "--bad-share", "0.1", "--prompt-words", "uniform:3-5",
		"--shared-prefix", "10", "--prefix-share", "0.5", "--turns", "uniform:1-3", "--api-key", "heavy:3=a", "--api-key", "light=b"}
	all := plan(t, args...)
	if !reflect.DeepEqual(all, plan(t, args...)) {
		t.Error("the same seed makes other requests")
	}
	if reflect.DeepEqual(all[:5], plan(t, append(args, "--seed", "2")...)[:5]) {
		t.Error("another seed makes the same requests")
	}
	if !slices.IsSorted(times(all)) {
		t.Error("not in order")
	}
	n := map[string]float64{}
	for i, a := range all {
		if a.id != i {
			t.Fatalf("arrival %d is called %d", i, a.id)
		}
		n[string(a.class)]++
		n["key "+string(rune('0'+a.key))]++
		if a.prefix {
			n["prefix"]++
		}
		n["turns"] += float64(len(a.turns))
		for _, turn := range a.turns {
			words := len(strings.Fields(turn.words))
			if long := a.class == intruder; long && words != 300 || !long && (words < 3 || words > 5) || turn.maxTokens < 1 {
				t.Errorf("%s: %d words, %d tokens", a.class, words, turn.maxTokens)
			}
		}
		if (a.class == cancelled) != (a.cancelAfter > 0) {
			t.Errorf("%s is cancelled after %v", a.class, a.cancelAfter)
		}
	}
	// Of some 2000, chance moves a share by a hundredth or two.
	total := float64(len(all))
	for name, want := range map[string]float64{"short": 0.69, "cancelled": 0.2, "bad": 0.1, "key 0": 0.75, "key 1": 0.25, "prefix": 0.45, "turns": 0.69*2 + 0.2 + 0.014} {
		if got := n[name] / total; math.Abs(got-want) > 0.06 {
			t.Errorf("%s: a share of %.3f, want %.3f", name, got, want)
		}
	}
	if n["intruder"] != 28 {
		t.Errorf("%g long prompts in 200 s, want one every 7 s", n["intruder"])
	}
}

func TestDist(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(s string, n int) []int {
		d := dist{least: 1, most: 10000}
		if err := d.Set(s); err != nil {
			t.Fatal(err)
		}
		var v []int
		for range n {
			v = append(v, d.draw(r))
		}
		slices.Sort(v)
		return v
	}
	for s, want := range map[string][2]int{"7": {7, 7}, "fixed:7": {7, 7}, "uniform:3-6": {3, 6}, "lognormal:50,0": {50, 50}, "lognormal:9000,9": {1, 10000}, "lognormal:50,5,60": {1, 60}} {
		v := draw(s, 2000)
		if v[0] != want[0] || v[len(v)-1] != want[1] {
			t.Errorf("%s: from %d to %d, want %v", s, v[0], v[len(v)-1], want)
		}
	}
	// The median, and the point that 84 % lie below: one sigma above.
	v := draw("lognormal:100,0.7", 20001)
	if median, above := v[10000], v[16827]; median < 97 || median > 103 || math.Abs(float64(above)-100*math.Exp(0.7)) > 8 {
		t.Errorf("median %d and %d above it", median, above)
	}
	for _, bad := range []string{"", "0", "-1", "10001", "x", "fixed:", "uniform:3", "uniform:6-3", "uniform:0-3", "lognormal:5", "lognormal:5,-1", "lognormal:5,NaN", "lognormal:5,1,0", "lognormal:5,1,2,3", "normal:1"} {
		if err := (&dist{least: 1, most: 10000}).Set(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzDist(f *testing.F) {
	for _, s := range []string{"7", "fixed:7", "uniform:3-6", "lognormal:50,0.5", "lognormal:50,0.5,90", "uniform:1-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := dist{least: 2, most: 1000}
		if d.Set(s) != nil {
			return
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			if n := d.draw(r); n < 2 || n > 1000 {
				t.Fatalf("%q draws %d", s, n)
			}
		}
	})
}

func TestWords(t *testing.T) {
	dir := t.TempDir()
	put := func(text string) string {
		path := filepath.Join(dir, "text")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w, err := readWords(put("one two\nthree"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	if got := w.text(r, 6); !strings.Contains("one two three one two three one two three", got) || len(strings.Fields(got)) != 6 {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{put(" \n"), dir, filepath.Join(dir, "none")} {
		if _, err := readWords(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if _, err := readWords(put("a " + strings.Repeat("x", maxWord+1))); err == nil || !strings.Contains(err.Error(), "a word of 1001 bytes") {
		t.Errorf("%v", err)
	}
}

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"--api-key", "sk-abc=", "--api-key", "light:0.5=sk=x"}, io.Discard)
	if want := (apiKeys{{"key1", "sk-abc=", 1}, {"light", "sk=x", 0.5}}); err != nil || !slices.Equal(c.keys, want) || c.duration != 30*time.Second {
		t.Errorf("got %+v, %v", c.keys, err)
	}
	if strings.Contains(c.keys.String(), "sk") {
		t.Errorf("keys end up in reports: %s", &c.keys)
	}
	for url, want := range map[string][2]string{
		"http://a:1": {"http://a:1", ""}, "http://a:1/": {"http://a:1", ""}, "https://a/x/v1/": {"https://a/x", ""}, "unix:/a/b": {"http://localhost", "/a/b"}, "unix:///a": {"http://localhost", "/a"},
	} {
		c := config{url: url}
		if base, socket, err := c.endpoint(); err != nil || base != want[0] || socket != want[1] {
			t.Errorf("%s: %q, %q, %v", url, base, socket, err)
		}
	}
	for _, args := range [][]string{
		{"x"}, {"--url", "a:1"}, {"--url", "ftp://a"}, {"--url", "unix:"}, {"--url", "http://"}, {"--api", "x"}, {"--rate", "0"}, {"--rate", "NaN"}, {"--rate", "-1"}, {"--arrivals", "x"},
		{"--arrivals", "burst:0"}, {"--duration", "-1s"}, {"--requests", "-1"}, {"--concurrency-cap", "0"}, {"--intruder", "5s"}, {"--intruder", "0s:5"}, {"--intruder", "5s:0"},
		{"--cancel-share", "2"}, {"--cancel-share", "NaN"}, {"--cancel-share", "0.6", "--bad-share", "0.6"}, {"--extra", "[]"}, {"--extra", "{"}, {"--topic", "a/b"}, {"--topic", ".."},
		{"--server", "x", "--pid", "1"}, {"--server-log", "x"}, {"--api-key", ""}, {"--api-key", "a=b", "--api-key", "a=c"}, {"--api-key", "a:0=b"}, {"--api-key", "a b"},
		{"--verify", "-1"}, {"--timeout", "0s"}, {"--temperature", "NaN"}, {"--shared-prefix", "-1"}, {"--turns", "0"}, {"--pid", "-1"},
	} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
