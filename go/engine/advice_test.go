package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// advised are the changes that a refusal may advise, and what it says of each.
var advised = []struct {
	says   string
	change func(c *Config)
}{
	{"(-ctk q8_0 -ctv q8_0)", func(c *Config) { c.KV, c.Tiers = kvcache.Both(kvcache.Q8), nil }},
	{"(--weights streamed)", func(c *Config) { c.Residency = model.Streamed }},
	{"(--weights mapped)", func(c *Config) { c.Residency = model.Mapped }},
}

// A refusal advises what would fit, all of it, and nothing that would not, nor what is so already: however much memory
// there is, wherever the weights are, and whatever keys and values are of.
func TestAdviceIsRight(t *testing.T) {
	f := openFile(t, testdata.Path(t, "archs/llama.gguf"))
	said := map[string]int{}
	for _, residency := range []model.Residency{model.Packed, model.Streamed, model.Mapped} {
		for _, kv := range []kvcache.Types{kvcache.Both(kvcache.F16), kvcache.Both(kvcache.Q8), kvcache.Both(kvcache.Q4),
			{K: kvcache.F16, V: kvcache.Q8}, {K: kvcache.Q4, V: kvcache.F16}} {
			if residency != model.Packed && kv != kvcache.Both(kvcache.F16) {
				continue
			}
			c := Config{Ctx: 2048, Batch: 4, Residency: residency, KV: kv}
			need, err := Memory(f, 1, c)
			if err != nil {
				t.Fatal(err)
			}
			for limit := need.Total() - 1; limit > need.Total()/6; limit -= need.Total() / 6 {
				fits := func(c Config) bool {
					p, err := NewPlan(f, mem.NewBudget(limit, "a test"), 1, c)
					return err == nil && p.Need.Total() <= limit
				}
				_, err := NewPlan(f, mem.NewBudget(limit, "a test"), 1, c)
				var fit *FitError
				if !errors.As(err, &fit) || fit.Free != limit || fit.Limit != limit || fit.Reason != "a test" {
					t.Fatalf("with %d bytes of %d: %v", limit, need.Total(), err)
				}
				what := fmt.Sprintf("%v, %v, %d bytes of %d", residency, kv, limit, need.Total())
				rest := len(fit.Advice)
				for _, a := range advised {
					other := c
					a.change(&other)
					small := a.says == advised[0].says && slices.Contains([]kvcache.Type{kvcache.Q8, kvcache.Q4}, kv.K) &&
						slices.Contains([]kvcache.Type{kvcache.Q8, kvcache.Q4}, kv.V)
					want := fits(other) && !small && (a.says == advised[0].says || other.Residency != residency)
					if got := strings.Contains(strings.Join(fit.Advice, "; "), a.says); got != want {
						t.Errorf("%s: %q is advised: %v, want %v", what, a.says, got, want)
					}
					if want {
						said[a.says]++
						rest--
					}
				}
				longest := 0
				for n := 256; n < 2048; n += 256 {
					short := c
					if short.Ctx = n; fits(short) {
						longest = n
					}
				}
				context := fmt.Sprintf("a context of %d tokens (-c %d)", longest, longest)
				if slices.Contains(fit.Advice, context) != (longest > 0) {
					t.Errorf("%s: %q, want %q in it", what, fit.Advice, context)
				}
				if longest > 0 {
					said["context"]++
					rest--
				}
				quantized := slices.ContainsFunc(fit.Advice, func(s string) bool { return strings.HasPrefix(s, "a file quantized to ") })
				if quantized {
					said["quantized"]++
					rest--
				}
				if beside := need.KV + need.Activations; quantized && (beside >= limit || residency == model.Mapped) {
					t.Errorf("%s: a smaller file is advised, and %d bytes are needed beside it", what, beside)
				}
				if none := slices.Equal(fit.Advice, []string{"a smaller model, or a higher limit"}); none {
					said["none"]++
					rest--
				}
				if rest != 0 {
					t.Errorf("%s: %d pieces of advice too many in %q", what, rest, fit.Advice)
				}
			}
		}
	}
	for _, a := range append([]string{"context", "quantized", "none"}, advised[0].says, advised[1].says, advised[2].says) {
		if said[a] == 0 {
			t.Errorf("%q was never advised: the test does not test that", a)
		}
	}
}

// Where the user leaves it open, weights are packed if there is memory for them and a context, else streamed if there is
// for that, else mapped; in a packed file they are mapped if all of it fits as well, and streamed otherwise.
func TestPlaces(t *testing.T) {
	plain := testdata.Path(t, "archs/llama.gguf")
	for _, c := range []struct {
		what, path string
		Config     Config
		order      []model.Residency
	}{
		{"a file", plain, Config{Ctx: 64, Batch: 8}, []model.Residency{model.Packed, model.Streamed, model.Mapped}},
		{"a packed file", packFile(t, plain), Config{Ctx: 64, Batch: 8}, []model.Residency{model.Mapped, model.Streamed}},
	} {
		f := openFile(t, c.path)
		needs := map[model.Residency]uint64{}
		for _, r := range c.order {
			c.Config.Residency = r
			p, err := NewPlan(f, mem.NewBudget(1<<40, "a test"), 1, c.Config)
			if err != nil || p.Use.Residency != r {
				t.Fatalf("%s, %v: %v, %v", c.what, r, p.Use.Residency, err)
			}
			needs[r] = p.Need.Total()
			if r == model.Mapped && len(c.order) == 2 {
				c.Config.Residency = model.Mapped
				s, err := c.Config.needed(f)
				if err != nil {
					t.Fatal(err)
				}
				needs[r] += s.InPlace()
			}
		}
		c.Config.Residency = model.Auto
		got := map[model.Residency]bool{}
		for _, need := range needs {
			for _, limit := range []uint64{need - 1, need, need + 1} {
				want := c.order[len(c.order)-1]
				for _, r := range c.order {
					if needs[r] <= limit {
						want = r
						break
					}
				}
				p, _ := NewPlan(f, mem.NewBudget(limit, "a test"), 1, c.Config)
				if p.Use.Residency != want {
					t.Errorf("%s, %d bytes of %v: %v, want %v", c.what, limit, needs, p.Use.Residency, want)
				}
				got[want] = true
			}
		}
		if len(got) != len(c.order) {
			t.Errorf("%s: %v were chosen: the test does not test that", c.what, got)
		}
	}
}

// What passes read from the disk are the weights that have no memory.
func TestWhatIsStreamed(t *testing.T) {
	path := testdata.Path(t, "archs/llama.gguf")
	f := openFile(t, path)
	c := Config{Ctx: 64, Batch: 8, Residency: model.Streamed}
	need, err := Memory(f, 1, c)
	if err != nil || need.Streamable == 0 {
		t.Fatalf("%+v, %v", need, err)
	}
	last := uint64(1 << 62)
	for more := uint64(0); more <= 2*need.Streamable; more += need.Streamable / 8 {
		free := need.Total() + more
		p, err := NewPlan(f, mem.NewBudget(free, "a test"), 1, c)
		kept := more - min(more, free/32)
		want := uint64(0)
		if kept < need.Streamable {
			want = need.Streamable - kept + need.StreamLeast
		}
		if err != nil || p.Streams != want || p.Streams > last {
			t.Errorf("with %d bytes more of %d passes read %d, want %d: %v", more, need.Streamable, p.Streams, want, err)
		}
		last = p.Streams
		d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(free, "a test")})
		c.Device = d
		if e := open(t, path, c); (more == 0 || p.Streams == 0) && e.reads() != (p.Streams > 0) {
			st, _ := e.Model().Stream()
			t.Errorf("with %d bytes more passes read: %v, want %d: %+v", more, e.reads(), p.Streams, st)
		}
		c.Device = nil
	}
	if last != 0 {
		t.Errorf("with twice the memory passes read %d bytes", last)
	}
	if open(t, path, Config{}).reads() {
		t.Error("packed weights are read")
	}
}

// A refusal of a context for which too little memory is set aside has both numbers.
func TestTooLittleIsSetAside(t *testing.T) {
	const block = kvcache.BlockTokens
	l := kvcache.Layout{{Bytes: 1000}}
	for _, c := range []struct {
		ctx   int
		bytes uint64
		want  string
	}{
		{0, 1999, "keys and values of a context of 64 tokens need 2.0 kB, want at most the 2.0 kB that are set aside for them"},
		{10 * block, 5000, "keys and values of a context of 640 tokens need 11.0 kB, want at most the 5.0 kB that are set aside for them"},
	} {
		u := model.Use{Ctx: 10 * block, Sequences: 1, Batch: 8}
		_, err := (&Config{Shared: true, Ctx: c.ctx, KVBytes: c.bytes}).kvBytes(&u, l, 1<<20)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Nothing is planned for a configuration that cannot be opened, or for a file that says too little.
func TestNoPlan(t *testing.T) {
	f := openFile(t, tiny)
	c := Config{Ctx: -1}
	if _, err := NewPlan(f, mem.NewBudget(1<<30, "a test"), 1, c); err == nil || !strings.Contains(err.Error(), "context -1") {
		t.Errorf("a plan: %v", err)
	}
	if _, err := Memory(f, 1, c); err == nil || !strings.Contains(err.Error(), "context -1") {
		t.Errorf("memory: %v", err)
	}
	raw, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, bytes.Replace(raw, []byte("blk.1.attn_k.weight"), []byte("blk.1.attn_x.weight"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	f = openFile(t, path)
	if _, err := NewPlan(f, mem.NewBudget(1<<30, "a test"), 1, Config{}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a plan of a file without a tensor: %v", err)
	}
	if _, err := Memory(f, 1, Config{}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("memory of a file without a tensor: %v", err)
	}
}

// Keys and values are named by their types, or by those of each age.
func TestKVNames(t *testing.T) {
	for name, c := range map[string]Config{
		kvcache.Types{K: kvcache.F16, V: kvcache.Q8}.String(): {KV: kvcache.Types{K: kvcache.F16, V: kvcache.Q8}},
		tiersOf(t, "64:i16,*:q8_0").String():                  {Tiers: tiersOf(t, "64:i16,*:q8_0")},
	} {
		if e := open(t, tiny, c); e.KVName() != name {
			t.Errorf("%q, want %q", e.KVName(), name)
		}
	}
}
