package engine

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// What Memory says is enough, and a byte less is refused before the weights are
// read, by the name of what does not fit.
func TestMemoryIsExact(t *testing.T) {
	for _, file := range []string{"tiny-llama-mixed.gguf", "tiny-llama-tied-f16.gguf", "tiny-moe-f32.gguf"} {
		path := filepath.Join(golden, file)
		f, err := model.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, tt := range []struct {
			threads int
			Config
		}{
			{1, Config{Ctx: 64, Batch: 1, Residency: model.Packed}},
			{2, Config{Ctx: 200, Sequences: 3, Residency: model.Packed, KV: kvcache.Both(kvcache.F32)}},
			{1, Config{Ctx: 64, Batch: 1, Residency: model.Mapped}},
			{3, Config{Ctx: 200, Batch: 8, Residency: model.Mapped}},
		} {
			c := tt.Config
			need, err := Memory(f, tt.threads, c)
			if err != nil {
				t.Fatal(err)
			}
			c.Device = deviceOf(t, DeviceConfig{Threads: tt.threads, Budget: mem.NewBudget(need.Total(), "a test")})
			budget := c.Device.Budget()
			e, err := Open(path, c)
			if err != nil {
				t.Errorf("%s, %+v: %v", file, c, err)
				continue
			}
			if got := budget.ByPurpose(); got["keys and values"] != need.KV || got["activations"] != need.Activations || budget.Peak() != need.Total() {
				t.Errorf("%s, %v: took %v, %d at most, want %+v", file, c.Residency, got, budget.Peak(), need)
			}
			e.Close()

			read := false
			c.Progress = func(uint64, uint64) { read = true }
			for _, tt := range []struct {
				less uint64
				want string
			}{{1, "activations need"}, {need.Activations + 1, "keys and values need"}, {need.Activations + need.KV + 1, "weights"}} {
				budget := mem.NewBudget(need.Weights+need.KV+need.Activations-tt.less, "a test")
				c.Device = deviceOf(t, DeviceConfig{Threads: c.Device.Threads(), Budget: budget})
				var limit *mem.LimitError
				if _, err := Open(path, c); !errors.As(err, &limit) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s, %v, %d bytes less: error %v, want %q", file, c.Residency, tt.less, err, tt.want)
				}
				if read || budget.Used() != 0 {
					t.Errorf("%s, %v: weights were read: %v; %d bytes are still taken", file, c.Residency, read, budget.Used())
				}
			}
		}
	}
}

// Auto packs the weights where keys, values and activations fit beside them.
func TestAutoResidency(t *testing.T) {
	path := filepath.Join(golden, "tiny-llama-mixed.gguf")
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []Config{{Ctx: 100, Batch: 4}, {Batch: 4}} {
		need, err := Memory(f, 1, c)
		if err != nil {
			t.Fatal(err)
		}
		for less, want := range map[uint64]model.Residency{0: model.Packed, 1: model.Mapped} {
			e := open(t, path, Config{Ctx: c.Ctx, Batch: 4, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(need.Total()-less, "a test")})})
			if got := e.Model().Residency; got != want {
				t.Errorf("context %d, %d bytes less: %v, want %v", c.Ctx, less, got, want)
			}
		}
	}
}

// The shared memory is what was asked for, or half of what is free.
func TestSharedMemory(t *testing.T) {
	probe := open(t, tiny, Config{})
	block := uint64(probe.kv.Layout()[0].Bytes)
	e := open(t, tiny, Config{Shared: true, Sequences: 3, KVBytes: 4*block + 1})
	if e.kv.Limit() != 4*block || e.Ctx() != 3*kvcache.BlockTokens {
		t.Errorf("%d bytes, context %d", e.kv.Limit(), e.Ctx())
	}
	b := testBudget()
	_, err := Open(tiny, Config{Shared: true, Ctx: 200, KVBytes: 4 * block, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: b})})
	if err == nil || !strings.Contains(err.Error(), "200 tokens") || b.Used() != 0 {
		t.Errorf("a context beyond the memory: %v, %d bytes taken", err, b.Used())
	}
	var limit *mem.LimitError
	if _, err := Open(tiny, Config{Shared: true, KVBytes: 2 << 30, Device: device(t, 1)}); !errors.As(err, &limit) {
		t.Errorf("more than the budget: %v", err)
	}
}
