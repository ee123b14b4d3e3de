package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/machine"
)

// Experiments that only some machines can decide. Elsewhere they say what is missing, and their verdict is open.

// smt: does a core's second hyperthread help by reading ahead? The head of smt.c has all of it but the siblings.
func smt(ctx context.Context, s setting) (*result, error) {
	r := &result{Lab: "smt"}
	f := finding{Key: "helper", Measure: "a prefetching sibling on each core", Verdict: "open",
		Threshold: "adopt at 1.05 times at n = 1, and no loss at n = 4"}
	m, err := machine.Read()
	if err != nil {
		return nil, err
	}
	pairs := siblings(m.CPUs)
	if len(pairs) == 0 {
		f.Number = "this machine has none: one thread a core"
		r.Findings = []finding{f}
		return r, nil
	}
	faster := map[int]float64{}
	r.Head = []string{"tokens", "alone, ms", "helped, ms", "times as fast", "GB/s alone"}
	for _, n := range []int{1, 4} {
		var t struct{ Alone, Helped, GBps float64 }
		if err := runC(ctx, "smt", &t, append([]string{strconv.Itoa(n)}, pairs...)...); err != nil {
			return nil, err
		}
		faster[n] = t.Alone / t.Helped
		row := []string{strconv.Itoa(n)}
		for _, x := range []float64{1e3 * t.Alone, 1e3 * t.Helped, faster[n], t.GBps} {
			row = append(row, fmt.Sprintf("%.2f", x))
		}
		r.Rows = append(r.Rows, row)
	}
	f.Number = fmt.Sprintf("%.2f times as fast at n = 1, %.2f at n = 4, on %d cores", faster[1], faster[4], len(pairs))
	f.Verdict = "refuted"
	if faster[1] >= 1.05 && faster[4] >= 1 {
		f.Verdict = "adopted"
	}
	r.Findings = []finding{f}
	return r, nil
}

// siblings returns pairs of CPUs that share a core and may be used, as smt.c wants them.
func siblings(cpus []machine.CPU) []string {
	first := map[int]int{}
	var pairs []string
	for _, c := range cpus {
		if !c.Allowed {
			continue
		}
		if id, ok := first[c.Core]; !ok {
			first[c.Core] = c.ID
		} else if id >= 0 && len(pairs) < 64 {
			pairs = append(pairs, fmt.Sprintf("%d:%d", id, c.ID))
			first[c.Core] = -1 // a third thread of a core stays idle
		}
	}
	return pairs
}

// sustained: does a machine that generates for long become slower, and are fewer threads then faster?
//
// Claim: a scheduler that uses fewer threads before the machine throttles is faster than one that lets it throttle.
// Measure: tokens a second of one stream, the last tenth of a load over the first. Where it fell below 0.9, the same with
// half of the threads, after the machine has cooled for as long. Temperatures from /sys/class/thermal.
// Data: the demo, or a model.
// Threshold: refuted where the last tenth has 0.9 of the first or more; else adopted where half of the threads are 1.05
// times as fast at the end, refuted where they are not. Without thermal zones open: what slowed it, or did not, cannot be
// told.
func sustained(ctx context.Context, s setting) (*result, error) {
	length := s.minutes
	if s.quick {
		length = 2 * time.Second
	}
	root := os.DirFS("/")
	r := &result{Lab: "sustained", Model: modelName(s)}
	r.Head = []string{"load", "tokens/s in the first tenth", "in the last", "temperature, C"}
	first, last, threads, err := load(ctx, s, length, 0)
	if err != nil {
		return nil, err
	}
	row := func(what string, first, last float64) {
		degrees := "unknown"
		if d, err := temperature(root); err == nil {
			degrees = fmt.Sprintf("%.0f", d)
		}
		r.Rows = append(r.Rows, []string{what, fmt.Sprintf("%.1f", first), fmt.Sprintf("%.1f", last), degrees})
	}
	row(fmt.Sprintf("%d threads, %v", threads, length), first, last)
	f := finding{Key: "sustained", Measure: fmt.Sprintf("generation for %v", length), Verdict: "refuted",
		Threshold: "refuted at 0.9 of the first tenth", Number: fmt.Sprintf("%.2f of the first tenth's speed in the last", last/first)}
	switch _, err := temperature(root); {
	case err != nil:
		f.Verdict = "open"
		f.Number += "; this machine has no thermal zones"
	case last < 0.9*first && threads > 1:
		select {
		case <-time.After(length):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		half, end, _, err := load(ctx, s, length, threads/2)
		if err != nil {
			return nil, err
		}
		row(fmt.Sprintf("%d threads, %v", threads/2, length), half, end)
		f.Number += fmt.Sprintf("; half of the threads %.2f times as fast at the end", end/last)
		if end >= 1.05*last {
			f.Verdict = "adopted"
		}
	}
	r.Findings = []finding{f}
	return r, nil
}

// energy: what does a token cost?
//
// Claim: the energy of a token is far above Landauer's bound, so a scheduler can save much.
// Measure: joules a token of the package and of DRAM (/sys/class/powercap), generating one stream, and six together.
// Data: the demo, or a model.
// Threshold: option where six streams take less than half of the joules of one for a token: then batching is the lever.
func energy(ctx context.Context, s setting) (*result, error) {
	r := &result{Lab: "energy", Model: modelName(s)}
	f := finding{Key: "energy", Measure: "joules a token", Threshold: "option where six streams take half", Verdict: "open"}
	meter, err := machine.NewEnergyMeter()
	if err != nil {
		f.Number = "this machine has none that can be read: " + err.Error()
		r.Findings = []finding{f}
		return r, nil
	}
	length := 20 * time.Second
	if s.quick {
		length = 2 * time.Second
	}
	d, m, err := open(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	defer m.Close()
	r.Head = []string{"streams", "joules a token", "tokens/s"}
	var each []float64
	for _, streams := range []int{1, 6} {
		before, err := meter.Read()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		tokens, err := generate(ctx, m, streams, length)
		if err != nil {
			return nil, err
		}
		after, err := meter.Read()
		if err != nil {
			return nil, err
		}
		each = append(each, (after.Sum()-before.Sum())/float64(tokens))
		speed := float64(tokens) / time.Since(start).Seconds()
		r.Rows = append(r.Rows, []string{strconv.Itoa(streams), fmt.Sprintf("%.3g", each[len(each)-1]), fmt.Sprintf("%.1f", speed)})
	}
	f.Number = fmt.Sprintf("%.3g J for one stream, %.3g for six", each[0], each[1])
	f.Verdict = "refuted"
	if each[1] < each[0]/2 {
		f.Verdict = "option"
	}
	r.Findings = []finding{f}
	return r, nil
}

// temperature reads the hottest zone, in degrees Celsius.
func temperature(root fs.FS) (float64, error) {
	zones, err := fs.Glob(root, "sys/class/thermal/thermal_zone*/temp")
	if err != nil || len(zones) == 0 {
		return 0, errors.New("no thermal zones")
	}
	hottest := -273.0
	for _, zone := range zones {
		if t, err := number(root, zone); err == nil {
			hottest = max(hottest, t/1000)
		}
	}
	if hottest < -100 {
		return 0, errors.New("thermal zones without a temperature")
	}
	return hottest, nil
}

func number(root fs.FS, path string) (float64, error) {
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
}

func modelName(s setting) string {
	if s.model == "" {
		return "quern-demo"
	}
	return strings.TrimSuffix(filepath.Base(s.model), ".gguf")
}

// open opens the model on a device of so many threads, 0 for what the device chooses.
func open(ctx context.Context, s setting, threads int) (*quern.Device, *quern.Model, error) {
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: threads})
	if err != nil {
		return nil, nil, err
	}
	name := s.model
	if name == "" {
		name = quern.Demo
	}
	m, err := quern.Open(ctx, name, quern.WithDevice(d), quern.WithContextLength(1024), quern.WithParallel(6))
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, m, nil
}

// load generates one stream for a while: tokens a second in the first tenth and in the last, and the threads that it had.
func load(ctx context.Context, s setting, length time.Duration, threads int) (first, last float64, used int, err error) {
	d, m, err := open(ctx, s, threads)
	if err != nil {
		return 0, 0, 0, err
	}
	defer d.Close()
	defer m.Close()
	rate := func(d time.Duration) (float64, error) {
		start := time.Now()
		n, err := generate(ctx, m, 1, d)
		return float64(n) / time.Since(start).Seconds(), err
	}
	if first, err = rate(length / 10); err != nil {
		return 0, 0, 0, err
	}
	if _, err = rate(length * 8 / 10); err != nil {
		return 0, 0, 0, err
	}
	last, err = rate(length / 10)
	return first, last, d.Status().Threads, err
}

// generate has streams generate texts of 64 tokens until the time is over, and returns the tokens of all. Drafts are right
// by luck of the text, so texts are sampled, with seeds of their own.
func generate(ctx context.Context, m *quern.Model, streams int, length time.Duration) (int, error) {
	var wg sync.WaitGroup
	counts, errs := make([]int, streams), make([]error, streams)
	end := time.Now().Add(length)
	for i := range streams {
		wg.Go(func() {
			for k := 0; time.Now().Before(end); k++ {
				a, err := m.Complete(ctx, quern.Request{Prompt: "Once upon a time", MaxTokens: 64, IgnoreEnd: true,
					Temperature: new(1.0), Seed: new(uint64(i + streams*k))})
				if err != nil {
					errs[i] = err
					return
				}
				counts[i] += a.Usage.AnswerTokens
			}
		})
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return n, errors.Join(errs...)
}
