package verify

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/synth"
)

var update = flag.Bool("update", false, "write table.json anew: every bit that changed changes the profile; say why in the commit")

// rows are the computations of the table: the demo with every type of keys and values,
// random weights of every mix of types, and of layers of other kinds.
func rows() (rows []Row) {
	for _, kv := range kvcache.TypeNames() {
		rows = append(rows, Row{Model: demo.Name, KV: kv})
	}
	for _, mix := range synth.Mixes() {
		if mix == "MXFP4_MOE" {
			continue // the tiny shape has no experts
		}
		rows = append(rows, Row{Model: "tiny:" + mix, KV: kvcache.I16.String()})
	}
	rows = append(rows, Row{Model: "tiny-hybrid:Q4_K_M", KV: kvcache.I16.String()}) // state spaces, experts
	for _, model := range []string{
		"tiny-latent:Q8_0", "tiny-gemma4:Q8_0", "tiny-gemma3n:Q8_0", // windows, shared keys, streams
		"tiny-mamba:Q8_0", "tiny-delta:Q8_0", "tiny-rwkv7:Q8_0", // recurrences of other kinds
		"tiny-gpt-oss:MXFP4_MOE", "tiny-lfm2:Q8_0", "tiny-nemotron:Q8_0", // sinks, short convolutions, experts without gates
	} {
		rows = append(rows, Row{Model: model, KV: kvcache.I16.String()})
	}
	before := len(rows)
	// Activations of 16 bits: scales for 256 and for 32, a small scale beside floats, experts, a recurrence, attention by latents.
	for _, model := range []string{
		demo.Name, "tiny:Q4_0", "tiny:Q8_0", "tiny:Q2_K", "tiny:IQ4_XS", "tiny-gpt-oss:MXFP4_MOE", "tiny-delta:Q8_0", "tiny-latent:Q8_0",
	} {
		rows = append(rows, Row{Model: model, KV: kvcache.I16.String(), Bits: fineBits})
	}
	encoders := len(rows)
	for _, model := range []string{demoEyes, "tiny-mmproj:F32", "tiny-mmproj:F16", "tiny-mmproj:BF16", "tiny-mmproj:Q8_0"} {
		for _, kv := range []kvcache.Type{kvcache.F32, kvcache.I16} {
			rows = append(rows, Row{Model: model, KV: kv.String()})
		}
	}
	training := len(rows)
	for _, r := range [][2]string{{demo.Name, adapter}, {demo.Name, weights}, {"tiny-gpt-oss:MXFP4_MOE", adapter}, {demo.Name, turned}} {
		rows = append(rows, Row{Model: r[0], Training: r[1], KV: kvcache.F16.String()})
	}
	for i := range rows {
		if encoders <= i && i < training {
			continue
		}
		at := i
		if i >= encoders {
			at -= encoders - before // rows keep their prompts
		}
		for k := range 24 {
			rows[i].Prompt = append(rows[i].Prompt, int32((at*131+k*k*17+k*29)%2000))
		}
	}
	return rows
}

func TestUpdate(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	all := rows()
	for i, r := range all {
		f, free, err := Open(context.Background(), r.Model)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := kvcache.ParseType(r.KV)
		if err != nil {
			t.Fatal(err)
		}
		if r.Training != "" {
			all[i], err = Train(context.Background(), r.Model, f, r.Training, r.Prompt, engine.DeviceConfig{})
		} else {
			all[i], err = Compute(context.Background(), r.Model, f, kv, r.Bits == fineBits, r.Prompt, 8, engine.DeviceConfig{}, Division{})
		}
		if err != nil {
			t.Fatal(err)
		}
		free()
	}
	var b strings.Builder
	for i, r := range all { // a row a line: a diff then tells what changed
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString([]string{"[\n", ",\n"}[min(i, 1)] + string(line))
	}
	if err := os.WriteFile("table.json", []byte(b.String()+"\n]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every set of this CPU but scalar, which takes as long as all others and which a test of the program checks, gives the
// bits of the table. With -short it is the best alone, and of training the first row, since emulators take minutes for each.
func TestTable(t *testing.T) {
	if *update {
		t.Skip("the table was written anew")
	}
	want := rows()
	if len(Table()) != len(want) {
		t.Fatalf("%d rows, want %d: run with -update", len(Table()), len(want))
	}
	sets := kernel.Ladder(kernel.Best)
	if testing.Short() {
		sets = sets[len(sets)-1:]
	} else if len(sets) > 1 {
		sets = sets[1:]
	}
	defer kernel.Init(kernel.Best)
	for _, isa := range sets {
		kernel.Init(isa)
		trained := false
		for i, r := range Table() {
			if testing.Short() && trained {
				break // training comes last
			}
			trained = r.Training != ""
			if r.Model != want[i].Model || r.KV != want[i].KV || r.Bits != want[i].Bits || r.Training != want[i].Training || !slices.Equal(r.Prompt, want[i].Prompt) {
				t.Errorf("row %d is of %s %s, want %s %s: run with -update", i, r.Model, r.KV, want[i].Model, want[i].KV)
				continue
			}
			if err := r.Check(context.Background(), engine.DeviceConfig{Threads: 1 + i%2}, Division{Ranks: 1 + i%3, Layers: i%2 == 1}); err != nil {
				t.Errorf("%v: %v", isa, err)
			}
		}
	}
}

// What differs is told: a file, an id, a logit.
func TestCheckTells(t *testing.T) {
	ctx, good := context.Background(), Table()[0]
	for _, tt := range []struct {
		name, want string
		change     func(r *Row)
	}{
		{"another file", "its file has the hash", func(r *Row) { r.File = strings.Repeat("0", 64) }},
		{"another id", "continues with", func(r *Row) { r.IDs = append([]int32{r.IDs[0] ^ 1}, r.IDs[1:]...) }},
		{"another logit", "the ids are right", func(r *Row) { r.Logits = strings.Repeat("0", 64) }},
		{"another type", "unknown KV type", func(r *Row) { r.KV = "i17" }},
		{"other training", "want adapter, dora or weights", func(r *Row) { r.Training, r.KV = "norms", "f16" }},
		{"another number", "training of its adapter: the numbers", func(r *Row) { r.Training, r.KV, r.IDs = adapter, "f16", nil }},
		{"training with another type", "its keys and values are f16", func(r *Row) { r.Training, r.KV = adapter, "q8_0" }},
		{"other bits of activations", "activations of 12 bits", func(r *Row) { r.Bits = 12 }},
		{"more of them", "and activations of 16 bits: ", func(r *Row) { r.Bits = fineBits }},
		{"training with more", "all others have 8", func(r *Row) { r.Training, r.KV, r.Bits = adapter, "f16", fineBits }},
		{"another model", "unknown shape", func(r *Row) { r.Model = "none" }},
	} {
		r := good
		tt.change(&r)
		if testing.Short() && r.Training == adapter {
			continue // emulators take long to train
		}
		if err := r.Check(ctx, engine.DeviceConfig{}, Division{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if err := good.Check(ctx, engine.DeviceConfig{}, Division{}); err != nil {
		t.Error(err)
	}
}

// A profile is of the bits: another hash of logits gives another name.
func TestProfile(t *testing.T) {
	if p := Profile(); len(p) != len("bits-")+8 || p != Profile() {
		t.Errorf("profile %q", p)
	}
}
