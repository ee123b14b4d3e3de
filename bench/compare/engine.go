package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
)

// An engine is a program that takes llama-bench's flags.
type engine struct {
	name string
	argv []string // what comes before the flags
}

// A record is one result, with llama-bench's field names. Engines omit unknown fields.
type record struct {
	BuildCommit string    `json:"build_commit"`
	Threads     int       `json:"n_threads"`
	Prompt      int       `json:"n_prompt"`
	Gen         int       `json:"n_gen"`
	Depth       int       `json:"n_depth"`
	AvgTS       float64   `json:"avg_ts"`
	SamplesTS   []float64 `json:"samples_ts"`

	// Ours only.
	ReadGBps  float64 `json:"read_gbps"`
	Int8GMACs float64 `json:"int8_gmacs"`
	RoofTS    float64 `json:"roof_ts"`
}

func (r record) test() test { return test{r.Prompt, r.Gen, r.Depth} }

// speed is the median of the repetitions, in tokens per second.
func (r record) speed() float64 {
	if len(r.SamplesTS) == 0 {
		return r.AvgTS
	}
	return median(r.SamplesTS)
}

// run executes a launch and returns the record of each of its tests.
func (e engine) run(ctx context.Context, l *launch, model string, c *config, stderr io.Writer) ([]record, error) {
	out, err := e.output(ctx, l.args(model, c), stderr)
	if err != nil {
		return nil, err
	}
	records, err := parseRecords(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.argv[0], err)
	}
	return order(records, l.tests)
}

// output runs the engine with flags and returns what it prints.
func (e engine) output(ctx context.Context, flags []string, stderr io.Writer) ([]byte, error) {
	cmd := exec.CommandContext(ctx, e.argv[0], append(slices.Clone(e.argv[1:]), flags...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", e.argv[0], err)
	}
	return out.Bytes(), nil
}

// parseRecords reads the output of -o json.
func parseRecords(b []byte) ([]record, error) {
	var records []record
	if err := json.Unmarshal(b, &records); err != nil {
		const most = 60
		head := bytes.TrimSpace(b)
		if len(head) > most {
			head = head[:most]
		}
		return nil, fmt.Errorf("output is not llama-bench's JSON: %w, near %q", err, head)
	}
	return records, nil
}

// order returns the records in the order of tests, or an error if one is missing.
func order(records []record, tests []test) ([]record, error) {
	var out []record
	for _, t := range tests {
		i := slices.IndexFunc(records, func(r record) bool { return r.test() == t })
		if i < 0 {
			return nil, fmt.Errorf("no result for %s", t)
		}
		if v := records[i].speed(); !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s at %g tokens/s is no result", t, v)
		}
		out = append(out, records[i])
	}
	return out, nil
}

// median returns the middle value, or the mean of the two. It does not modify v.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
