package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
)

// Percentiles are samples: the least that so many percent do not exceed.
func TestSpread(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var v []time.Duration
		for i := n; i > 0; i-- {
			v = append(v, time.Duration(i)*ms)
		}
		return v
	}
	for n, want := range map[int]spread{
		0: {}, 1: {1, 1, 1, 1, 1}, 2: {2, 1, 2, 2, 2}, 10: {10, 5, 9, 10, 10}, 100: {100, 50, 90, 99, 100}, 1000: {1000, 500, 900, 990, 1000},
	} {
		if got := spreadOf(upTo(n)); got != want {
			t.Errorf("1 to %d: %+v, want %+v", n, got, want)
		}
	}
}

// Time in which nothing is under way does not count as busy, and time in which
// several are counts once.
func TestBusy(t *testing.T) {
	start := time.Now()
	var results []*result
	for _, s := range [][2]int{{5, 9}, {0, 3}, {1, 2}, {2, 4}, {9, 10}, {20, 20}} {
		results = append(results, &result{answer: answer{sent: start.Add(time.Duration(s[0]) * ms), end: start.Add(time.Duration(s[1]) * ms)}})
	}
	if got := busy(results); got != 9*ms {
		t.Errorf("busy for %v, want 9ms", got)
	}
}

func TestGroups(t *testing.T) {
	names := func(results ...*result) string {
		var names []string
		for _, g := range groups(results) {
			names = append(names, g.Name)
		}
		return strings.Join(names, "; ")
	}
	a, b := apiKey{name: "a"}, apiKey{name: "b"}
	one, two := &result{class: short, prefix: true, key: a}, &result{class: short, prefix: true, key: a, turn: 1}
	other := &result{class: intruder, key: b}
	if got := names(one, one, other); got != "short; intruder" {
		t.Errorf("got %s", got)
	}
	if got := names(one, two); got != "short; short, first turn; short, later turns" {
		t.Errorf("got %s", got)
	}
	if got := names(one, &result{class: short, key: b}); got != "short; short, shared prefix; short, no shared prefix; short, key a; short, key b" {
		t.Errorf("got %s", got)
	}
}

// Memory is of a process and all below it.
func TestTreePeak(t *testing.T) {
	p := parseStatus(7, "Name:\tx\nPPid:\t3\nVmPeak:\t  900 kB\nVmHWM:\t  512 kB\nVmRSS:\t 1 kB\n")
	if p != (process{7, 3, 512 << 10}) {
		t.Errorf("got %+v", p)
	}
	all := []process{{1, 0, 1}, {3, 1, 10}, p, {8, 7, 100}, {9, 1, 1000}}
	for root, want := range map[int]uint64{3: 110 + 512<<10, 8: 100, 4: 0} {
		if got := treePeak(all, root); got != want {
			t.Errorf("below %d: %d bytes, want %d", root, got, want)
		}
	}
}

func TestTail(t *testing.T) {
	var b tail
	for range 5000 {
		b.Write([]byte("line\n"))
	}
	b.Write([]byte("the end\n"))
	if got := b.String(); !strings.HasSuffix(got, "line\nthe end") || strings.Count(got, "\n") != 9 || len(b.b) > 4096 {
		t.Errorf("%d bytes kept, shown as %q", len(b.b), got)
	}
}

func TestServerMessage(t *testing.T) {
	for in, want := range map[string]string{
		`{"error":{"message":"a"}}`: "a", `{"error":"b"}`: "b", `{"detail":"c"}`: "c", " d\n": "d", `{"message":"e"}`: "e", strings.Repeat("x", 300): strings.Repeat("x", 200) + "...",
	} {
		if got := serverMessage([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":-1}}\r\n\r\n: ping\n\n")
	f.Add("event: error\ndata: {\"error\":{\"message\":\"a\"}}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		var s stream
		err := s.read(strings.NewReader(text))
		if err == nil && (s.finish == "" || s.done.IsZero()) {
			t.Fatal("a stream without an end is taken as whole")
		}
		if len(s.text)+len(s.reasoning) > 0 && len(s.pieces) == 0 {
			t.Fatal("text came at no time")
		}
	})
}

func TestEvenly(t *testing.T) {
	labels := func(ticks []plot.Tick) string {
		var s []string
		for _, tick := range ticks {
			s = append(s, tick.Label)
		}
		return strings.Join(s, " ")
	}
	for most, want := range map[float64]string{
		1: "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1", 26: "0 5 10 15 20 25", 60: "0 10 20 30 40 50 60", 110: "0 20 40 60 80 100", 3600: "0 500 1000 1500 2000 2500 3000 3500",
	} {
		if got := labels(evenly(0, most)); got != want {
			t.Errorf("to %g: %s, want %s", most, got, want)
		}
	}
}

// A bin shows its median, and how far the maximum is above.
func TestBin(t *testing.T) {
	got := bin([]sample{{0, 3 * ms}, {1, 1 * ms}, {2, 9 * ms}, {100 * ms, 0}, {time.Second, 50 * ms}}, time.Second)
	if want := []float64{3, 0.1, 50}; len(got.XYs) != 3 || !slices.Equal([]float64{got.XYs[0].Y, got.XYs[1].Y, got.XYs[2].Y}, want) || got.YErrors[0].High != 6 {
		t.Errorf("got %+v", got)
	}
	if got.low != 0.1 || got.high != 50 {
		t.Errorf("from %g to %g, want 0.1 to 50", got.low, got.high)
	}
}
