package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/bench"
)

// Steps of the tiny model: their speed, and by operation what the passes there, again and back are made of.
func TestBenchTrain(t *testing.T) {
	path := tinyModel(t)
	measured := func(args ...string) []byte {
		t.Helper()
		return benched(t, append([]string{"-m", path, "-r", "2", "-t", "1"}, args...)...)
	}
	var rows []bench.TrainResult
	if err := json.Unmarshal(measured("--train", "8,70", "--rank", "4", "-o", "json"), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Tokens != 8 || rows[1].Tokens != 70 {
		t.Fatalf("rows %+v", rows)
	}
	for _, r := range rows {
		if len(r.SamplesNS) != 2 || !(r.AvgTS > 0) || r.Rank != 4 || r.Memory == 0 || !(*r.F32GMACs > 0) || !(*r.BF16Fraction > 0) {
			t.Errorf("train%d: %+v", r.Tokens, r)
		}
	}
	if rows[1].Memory <= rows[0].Memory {
		t.Errorf("%d bytes for more tokens, %d for fewer", rows[1].Memory, rows[0].Memory)
	}
	const steps, layers = 2, 4
	for _, r := range rows {
		if r.Layers != layers || r.Kept != layers {
			t.Errorf("train%d: %d of %d layers are kept, want all", r.Tokens, r.Kept, r.Layers)
		}
	}
	var ops []bench.TrainOpResult
	profile := func(args ...string) {
		t.Helper()
		ops = nil
		if err := json.Unmarshal(measured(append(args, "--train", "70", "--rank", "4", "--profile", "--no-roofline", "-o", "json")...), &ops); err != nil {
			t.Fatal(err)
		}
	}
	again := func(o bench.TrainOpResult) bool { return strings.HasSuffix(o.Operation, " again") }
	if profile(); slices.ContainsFunc(ops, again) {
		t.Error("something is computed again, though there is memory")
	}
	profile("--memory", "10MiB")
	calls, macs, shares := map[string]int{}, map[string]int64{}, 0.0
	for _, o := range ops {
		name := strings.TrimSpace(o.Operation + " " + o.Tensors)
		calls[name], macs[name] = o.Calls, o.MACs
		shares += o.Share
		if o.Tokens != 70 || o.Prompt != 0 || o.Threads != 1 || o.F32Fraction != nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for name, want := range map[string]int{
		"Embed token_embd": steps, "Matmul ffn_gate ffn_up": steps * layers, "Matmul again ffn_gate ffn_up": steps * layers,
		"BackX ffn_up": steps * layers, "BackLow ffn_up": steps * layers, "BackAttend": steps * layers, "BackX output": steps, "Loss": steps,
	} {
		if calls[name] != want {
			t.Errorf("%s: %d calls, want %d, of %v", name, calls[name], want, calls)
		}
	}
	if there, back := macs["Matmul attn_output"], macs["BackX attn_output"]; there == 0 || there != back {
		t.Errorf("%d multiply-adds there, %d back", there, back)
	}
	if shares < 0.999 || shares > 1.001 {
		t.Errorf("shares add up to %g", shares)
	}
	plain := rows[0].Memory
	rows = nil
	if err := json.Unmarshal(measured("--train", "8", "--rank", "4", "--dora", "--no-roofline", "-o", "json"), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || !rows[0].DoRA || rows[0].Memory <= plain || rows[0].Kept != layers {
		t.Errorf("with magnitudes, %d bytes without: %+v", plain, rows)
	}
	rows = nil
	if err := json.Unmarshal(measured("--train", "8", "--full", "Q8_0", "--no-roofline", "-o", "json"), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Full != "Q8_0" || !(rows[0].GMACs > 0) || rows[0].Kept != layers {
		t.Errorf("all weights: %+v", rows)
	}
	if table := string(measured("--train", "8", "--no-roofline")); !strings.Contains(table, "     train8 |") || strings.Contains(table, "of F32") {
		t.Errorf("the table is\n%s", table)
	}
}
